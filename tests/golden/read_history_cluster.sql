SELECT DISTINCT
    * REPLACE (if(event = 'committing', '{}', detail) AS detail),
    toFloat64(now64(6)) - time_seconds AS age_seconds
FROM
(
SELECT
        target, load_id, generation, attempt, epoch, event, try_number, detail, name, toFloat64(time) AS time_seconds
    FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
    WHERE (target, load_id, attempt) IN (('it\'s.a`b', 'ch-s3-0123', 7), ('d.t', 'ch-s3-4567', 9))
)
ORDER BY target, epoch, time_seconds
SETTINGS select_sequential_consistency = 1
