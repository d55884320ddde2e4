SELECT concat(hostName(), ':', toString(tcpPort())) AS node, name, engine, comment
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database = 'it\'s' AND name IN ('led`ger', 'led`ger_files')
