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
    AND hasAny(mapKeys(partitions), ['all', '20130101-it\'s'])
    AND epoch >= 5
GROUP BY target, load_id, generation, attempt
HAVING countIf(event = 'undone') = 0
SETTINGS select_sequential_consistency = 1
