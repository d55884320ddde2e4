SELECT
    mode,
    arrayJoin(if(mode = 'replace_partitions', mapKeys(partition_rows), [''])) AS partition_id,
    max(committed_at) AS replaced_at,
    argMax((load_id, generation, attempt), committed_at) AS replaced_by
FROM
(
SELECT
    target,
    load_id,
    generation,
    attempt,
    min((epoch, toFloat64(time))) AS committed_at,
    any(load_mode) AS mode,
    any(partitions) AS partition_rows
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE target IN ('it\'s.a`b', 'd.earlier')
    AND event IN ('committed', 'undone')
    AND hasAny(table_uuids, ['u1', 'u2'])
        AND load_mode NOT IN ('append', 'undo')
    GROUP BY target, load_id, generation, attempt
)
GROUP BY mode, partition_id
HAVING partition_id IN ('', '20130101-it\'s')
SETTINGS select_sequential_consistency = 1
