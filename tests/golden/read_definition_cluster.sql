SELECT concat(hostName(), ':', toString(tcpPort())) AS node, toString(uuid) AS uuid, create_table_query
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database = 'it\'s' AND name = 'a`b'
ORDER BY node
SETTINGS skip_unavailable_shards = 0
