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
UNION ALL
SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    shardNum() AS position,
    version() AS version,
    name,
    '' AS value,
    0 AS changed
FROM system.tables
WHERE database = 'system' AND name = 'query_log'
