SELECT
    target,
    load_id,
    generation,
    attempt,
    countIf(event = 'committed') > 0 AS is_committed,
    groupUniqArrayArray(table_uuids) AS uuids
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE event NOT IN ('locked', 'alive', 'named')
GROUP BY target, load_id, generation, attempt
HAVING toFloat64(max(time)) < 1700000000.5
    AND (is_committed OR maxIf(epoch, event = 'abandoned') > 0
        AND maxIf(epoch, event = 'abandoned') >= maxIf(epoch, event = 'committing'))
ORDER BY target, attempt
SETTINGS select_sequential_consistency = 1
