SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    is_readonly,
    if(is_readonly, dateDiff('second', coalesce(COLUMNS('^readonly_start_time$'), NULL), now()), NULL) AS read_only_seconds
FROM clusterAllReplicas('it\'s', system.replicas)
WHERE database IN ('it\'s', 'e')
    AND (database, `table`) IN (('it\'s', 'a`b'), ('it\'s', 'c'), ('e', 'c'))
