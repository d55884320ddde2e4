SELECT sum(line_count) AS line_count
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
SETTINGS skip_unavailable_shards = 0, allow_experimental_parallel_reading_from_replicas = 0, max_execution_time = 0,
    timeout_overflow_mode = 'throw', read_overflow_mode = 'throw', read_overflow_mode_leaf = 'throw',
    distinct_overflow_mode = 'throw', group_by_overflow_mode = 'throw'
