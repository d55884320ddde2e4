SELECT cluster, shard_num, host_name, port
FROM system.clusters
ORDER BY cluster, shard_num, replica_num
