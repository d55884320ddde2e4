SELECT concat(hostName(), ':', toString(tcpPort())) AS node, name, type, default_kind, default_expression
FROM system.columns
WHERE database = 'it\'s' AND table = 'a`b'
ORDER BY node, position
SETTINGS skip_unavailable_shards = 0
