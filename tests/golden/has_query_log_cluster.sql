SELECT concat(hostName(), ':', toString(tcpPort())) AS node
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database = 'system' AND name = 'query_log'
