SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    max(dateDiff('second', create_time, now())) AS failing_seconds,
    argMin(last_exception, create_time) AS failure
FROM clusterAllReplicas('it\'s', system.replication_queue)
WHERE database IN ('it\'s', 'e')
    AND (database, `table`) IN (('it\'s', 'a`b'), ('it\'s', 'c'), ('e', 'c'))
    AND last_exception != ''
GROUP BY node, database, table
