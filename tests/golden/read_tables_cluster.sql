SELECT concat(hostName(), ':', toString(tcpPort())) AS node, name, comment, toString(uuid) AS uuid
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database = 'it\'s'
    AND arrayExists(prefix -> startsWith(name, prefix), ['ch_s3_lock_5_', 'it\'s\n\'); DROP TABLE x; --\\'])
ORDER BY name, node
