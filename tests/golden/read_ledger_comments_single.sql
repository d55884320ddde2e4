SELECT concat(hostName(), ':', toString(tcpPort())) AS node, name, engine, comment
FROM system.tables
WHERE database = 'it\'s' AND name IN ('led`ger', 'led`ger_files')
SETTINGS skip_unavailable_shards = 0
