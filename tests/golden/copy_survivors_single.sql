INSERT INTO `it's`.`ch_s3_stage_52115f13b013_0123_2_7_9_merged`
    (`id`, `tail\`num`)
SELECT `id`, `tail\`num`
FROM `it's`.`a\`b`
WHERE _partition_id IN ('a', '20130101-it\'s') AND ifNull((dt = '2013-01-01' OR origin IS NULL), 0) = 0
SETTINGS parallel_distributed_insert_select = 2, insert_deduplicate = 0, optimize_on_insert = 0, async_insert = 0,
    skip_unavailable_shards = 0, enable_parallel_replicas = 0, max_execution_time = 0,
    timeout_overflow_mode = 'throw', read_overflow_mode = 'throw', read_overflow_mode_leaf = 'throw'
