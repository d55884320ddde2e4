SELECT
    currentDatabase() AS database,
    (SELECT engine FROM system.databases WHERE name = currentDatabase()) AS database_engine,
    toBool((SELECT count() FROM system.tables WHERE database = 'system' AND name = 'zookeeper')) AS has_keeper,
    mapFromArrays(groupArray(macro), groupArray(substitution)) AS macros
FROM system.macros
