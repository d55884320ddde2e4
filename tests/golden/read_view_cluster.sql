SELECT concat(hostName(), ':', toString(tcpPort())) AS node, create_table_query, as_select
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database = 'it\'s' AND name = 'a`b'
