SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    '' AS partition_id,
    count() AS running_merges,
    if(min(progress) > 0, max(elapsed * (1 - progress) / progress), NULL) AS left_seconds
FROM clusterAllReplicas('it\'s', system.merges)
WHERE database IN ('it\'s', 'e')
    AND (database, `table`) IN (('it\'s', 'a`b'), ('it\'s', 'c'), ('e', 'c'))
GROUP BY node, database, table, partition_id
