SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    partition_id AS partition_id,
    count() AS running_merges,
    if(min(progress) > 0, max(elapsed * (1 - progress) / progress), NULL) AS left_seconds
FROM clusterAllReplicas('it\'s', system.merges)
WHERE database IN ('it\'s', 'e')
    AND (database, `table`) IN (('it\'s', 'a`b'), ('e', 'c'))
    AND ((database = 'it\'s' AND table = 'a`b' AND partition_id IN ('201301', '2013-1')) OR (database = 'e' AND table = 'c' AND partition_id IN ('all')))
GROUP BY node, database, table, partition_id
