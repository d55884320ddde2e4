SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    shardNum() AS position,
    version() AS version,
    name,
    default AS value,
    changed
FROM clusterAllReplicas('it\'s', system.settings)
WHERE name = 'max_threads'
UNION ALL
SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    shardNum() AS position,
    version() AS version,
    name,
    value,
    changed
FROM clusterAllReplicas('it\'s', system.server_settings)
WHERE name IN ('max_server_memory_usage', 'max_server_memory_usage_to_ram_ratio')
UNION ALL
SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    shardNum() AS position,
    version() AS version,
    name,
    '' AS value,
    0 AS changed
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database = 'system' AND name = 'query_log'
UNION ALL
SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    shardNum() AS position,
    version() AS version,
    'cluster' AS name,
    toString(arraySort(groupArray(
        (shard_num, shard_weight, internal_replication, replica_num, host_name, port)
    ))) AS value,
    0 AS changed
FROM clusterAllReplicas('it\'s', system.clusters)
WHERE cluster = 'it\'s'
GROUP BY node, position, version
