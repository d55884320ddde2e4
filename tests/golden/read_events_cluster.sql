SELECT DISTINCT *, toFloat64(now64(6)) - time_seconds AS age_seconds
FROM
(
SELECT
        target, load_id, generation, attempt, epoch, event, try_number, detail, name, toFloat64(time) AS time_seconds
    FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
    WHERE target = 'it\'s.a`b' AND attempt >= (
        SELECT max(first_open)
        FROM
        (
            SELECT first_open
            FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
            WHERE target = 'it\'s.a`b' AND event = 'locked'
            ORDER BY attempt DESC
            LIMIT 1
        )
    )
    UNION ALL
SELECT
        target, load_id, generation, attempt, epoch, event, try_number, detail, name, toFloat64(time) AS time_seconds
    FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
    WHERE target = 'it\'s.a`b' AND load_id = 'ch-s3-0123'
)
ORDER BY epoch, time_seconds
SETTINGS select_sequential_consistency = 1
