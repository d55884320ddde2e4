SELECT concat(hostName(), ':', toString(tcpPort())) AS node, engine, engine_full, partition_key, sorting_key
FROM system.tables
WHERE database = 'it\'s' AND name = 'a`b'
ORDER BY node
SETTINGS skip_unavailable_shards = 0
