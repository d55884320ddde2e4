SELECT
    load_id,
    generation,
    attempt,
    arraySum(mapValues(partition_rows)) AS rows,
    JSONExtractUInt(committed, 'report', 'size_bytes') AS size_bytes,
    JSONExtractRaw(committed, 'report', 'row_checks') AS row_checks
FROM
(
    SELECT
        load_id,
        generation,
        attempt,
        anyIf(detail, event = 'planned') AS planned,
        anyIf(detail, event = 'committed') AS committed,
        anyIf(partitions, event = 'committed') AS partition_rows
    FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
    WHERE target = 'it\'s.a`b'
        AND attempt >= 5
        AND event IN ('planned', 'committed', 'undone')
        AND load_id != 'ch-s3-0123'
    GROUP BY load_id, generation, attempt
    HAVING countIf(event = 'undone') = 0
)
WHERE committed NOT IN ('', '{}')
    AND JSONExtractString(planned, 'dag') = 'd'
    AND JSONExtractString(planned, 'task') = 'it\'s\n\'); DROP TABLE x; --\\'
    AND if(JSONHas(planned, 'map_index'), JSONExtractInt(planned, 'map_index'), -1) = 3
ORDER BY attempt DESC
LIMIT 1000
