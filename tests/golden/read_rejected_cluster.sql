SELECT DISTINCT file, row, column, value, line, reason
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
ORDER BY file, row
LIMIT 10
SETTINGS skip_unavailable_shards = 0, allow_experimental_parallel_reading_from_replicas = 0, max_execution_time = 0,
    timeout_overflow_mode = 'throw', read_overflow_mode = 'throw', read_overflow_mode_leaf = 'throw',
    distinct_overflow_mode = 'throw', group_by_overflow_mode = 'throw'
