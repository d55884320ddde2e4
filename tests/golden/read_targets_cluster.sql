SELECT
    target,
    uniqExactIf((load_id, attempt), event = 'committed') AS commits,
    toFloat64(now64(6)) - toFloat64(maxIf(time, event = 'committed')) AS age_seconds
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE event IN ('locked', 'committed')
GROUP BY target
ORDER BY target
LIMIT 1000
SETTINGS select_sequential_consistency = 1
