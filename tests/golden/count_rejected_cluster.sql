SELECT concat(hostName(), ':', toString(tcpPort())) AS node, file, if(column = '', reason, concat(column, ': ', reason)) AS why, count() AS row_count
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
GROUP BY node, file, why
ORDER BY row_count DESC, file, why
SETTINGS skip_unavailable_shards = 0, allow_experimental_parallel_reading_from_replicas = 0, max_execution_time = 0,
    timeout_overflow_mode = 'throw', read_overflow_mode = 'throw', read_overflow_mode_leaf = 'throw',
    distinct_overflow_mode = 'throw', group_by_overflow_mode = 'throw'
