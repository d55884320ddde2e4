SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    shardNum() AS position,
    version() AS version,
    name,
    default AS value,
    changed
FROM system.settings
WHERE name = 'max_threads'
UNION ALL
SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    shardNum() AS position,
    version() AS version,
    name,
    value,
    changed
FROM system.server_settings
WHERE name IN ('max_server_memory_usage', 'max_server_memory_usage_to_ram_ratio')
SETTINGS skip_unavailable_shards = 0
