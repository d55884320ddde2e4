SELECT DISTINCT *, toFloat64(now64(6)) - time_seconds AS age_seconds
FROM
(
SELECT
        target, load_id, generation, attempt, epoch, event, try_number, detail, name, toFloat64(time) AS time_seconds
    FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
    WHERE target = 'it\'s.a`b' AND attempt >= 5
        OR target = 'it\'s.a`b' AND attempt IN (3)
)
ORDER BY epoch, time_seconds
SETTINGS select_sequential_consistency = 1
