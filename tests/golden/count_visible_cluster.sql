SELECT concat(hostName(), ':', toString(tcpPort())) AS node, _partition_id AS partition_id, count() AS rows
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
GROUP BY node, partition_id
ORDER BY partition_id, node
SETTINGS apply_deleted_mask = 0, max_execution_time = 0
