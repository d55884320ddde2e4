SELECT concat(hostName(), ':', toString(tcpPort())) AS node, name, type, default_kind, default_expression
FROM clusterAllReplicas('it\'s', system.columns)
WHERE database = 'it\'s' AND table = 'a`b'
ORDER BY node, position
