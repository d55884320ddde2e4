SELECT concat(hostName(), ':', toString(tcpPort())) AS node, _partition_id AS partition_id, count() AS rows
FROM `it's`.`a\`b`
GROUP BY node, partition_id
ORDER BY partition_id, node
SETTINGS apply_deleted_mask = 0, skip_unavailable_shards = 0, allow_experimental_parallel_reading_from_replicas = 0, max_execution_time = 0,
    timeout_overflow_mode = 'throw', read_overflow_mode = 'throw', read_overflow_mode_leaf = 'throw',
    distinct_overflow_mode = 'throw', group_by_overflow_mode = 'throw'
