SELECT
    currentDatabase() AS database,
    (SELECT mapFromArrays(groupArray(name), groupArray(engine)) FROM system.databases) AS engines,
    (SELECT mapFromArrays(groupArray(macro), groupArray(substitution)) FROM system.macros) AS macros,
    toBool((SELECT count() FROM system.tables WHERE database = 'system' AND name = 'zookeeper')) AS has_keeper,
    arrayZip(
        groupArray(cluster), groupArray(shard_num), groupArray(host_name), groupArray(port), groupArray(is_local),
        groupArray(internal_replication)
    ) AS members
FROM
(
    SELECT cluster, shard_num, host_name, port, is_local, internal_replication
    FROM system.clusters
    WHERE database_shard_name = '' OR cluster NOT IN (SELECT cluster FROM system.clusters WHERE database_shard_name = '')
    ORDER BY cluster, shard_num, replica_num
)
