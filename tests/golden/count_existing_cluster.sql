SELECT concat(hostName(), ':', toString(tcpPort())) AS node, _partition_id AS partition_id, count() AS rows
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
WHERE _partition_id IN ('a', '20130101-it\'s')
GROUP BY node, partition_id
ORDER BY partition_id, node
SETTINGS apply_deleted_mask = 1, max_execution_time = 0
