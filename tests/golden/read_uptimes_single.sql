SELECT concat(hostName(), ':', toString(tcpPort())) AS node, uptime() AS uptime_seconds
FROM system.one
SETTINGS skip_unavailable_shards = 0
