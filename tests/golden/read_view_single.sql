SELECT concat(hostName(), ':', toString(tcpPort())) AS node, create_table_query, as_select
FROM system.tables
WHERE database = 'it\'s' AND name = 'a`b'
SETTINGS skip_unavailable_shards = 0
