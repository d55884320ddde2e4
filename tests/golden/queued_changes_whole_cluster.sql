SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    '' AS partition_id,
    count() AS queued_changes,
    countIf(type IN ('MERGE_PARTS', 'MUTATE_PART')) AS queued_merges,
    maxIf(dateDiff('second', create_time, now()), last_exception != '') AS failing_seconds,
    argMinIf(last_exception, create_time, last_exception != '') AS failure
FROM clusterAllReplicas('it\'s', system.replication_queue)
WHERE database IN ('it\'s', 'e')
    AND (database, `table`) IN (('it\'s', 'a`b'), ('it\'s', 'c'), ('e', 'c'))
GROUP BY node, database, table, partition_id
