SELECT DISTINCT _partition_id
FROM `it's`.`a\`b`
WHERE ifNull((dt = '2013-01-01' OR origin IS NULL), 0) != 0
ORDER BY _partition_id
SETTINGS skip_unavailable_shards = 0, allow_experimental_parallel_reading_from_replicas = 0, max_execution_time = 0,
    timeout_overflow_mode = 'throw', read_overflow_mode = 'throw', read_overflow_mode_leaf = 'throw',
    distinct_overflow_mode = 'throw', group_by_overflow_mode = 'throw'
