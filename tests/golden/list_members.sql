SELECT cluster, shard_num, host_name, port
FROM system.clusters
WHERE database_shard_name = '' OR cluster NOT IN (SELECT cluster FROM system.clusters WHERE database_shard_name = '')
ORDER BY cluster, shard_num, replica_num
