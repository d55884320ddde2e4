SELECT DISTINCT concat(hostName(), ':', toString(tcpPort())) AS node
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database = 'it\'s' AND name = 'a`b'
ORDER BY node
SETTINGS skip_unavailable_shards = 1
