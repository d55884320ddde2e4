SELECT
    target,
    attempt,
    toFloat64(now64(6)) - toFloat64(min(time)) AS age_seconds,
    toFloat64(now64(6)) - toFloat64(max(time)) AS silent_seconds
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE event IN ('locked', 'alive')
    AND (target, attempt) IN (('it\'s.a`b', 7), ('d.t', 9))
GROUP BY target, attempt
SETTINGS select_sequential_consistency = 1
