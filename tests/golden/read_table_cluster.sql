SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    engine,
    engine_full,
    create_table_query,
    partition_key,
    sorting_key,
    storage_policy,
    toString(uuid) AS uuid,
    arrayZip(dependencies_database, dependencies_table) AS views,
    position(create_table_query, ' TTL ') > 0 AS has_ttl,
    position(create_table_query, ' PROJECTION ') > 0 AS has_projections,
    position(engine_full, ' UNIQUE KEY ') > 0 AS has_unique_key
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database = 'it\'s' AND name = 'a`b'
ORDER BY node
