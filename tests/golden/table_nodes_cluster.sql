SELECT DISTINCT concat(hostName(), ':', toString(tcpPort())) AS node, database, name AS table
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database IN ('it\'s', 'e')
    AND (database, `name`) IN (('it\'s', 'a`b'), ('it\'s', 'c'), ('e', 'c'))
