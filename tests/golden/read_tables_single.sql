SELECT concat(hostName(), ':', toString(tcpPort())) AS node, name, comment, toString(uuid) AS uuid
FROM system.tables
WHERE database = 'it\'s' AND startsWith(name, 'ch_s3_lock_52115f13b013_')
ORDER BY name, node
SETTINGS skip_unavailable_shards = 0
