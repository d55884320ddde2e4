INSERT INTO FUNCTION cluster('it\'s', 'it\'s', 'a`b') (`id`, `tail\`num`, `dt`, `origin`)
SELECT `id`, `tail\`num`, `dt`, `origin`
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
WHERE (`id`, `tail\`num`, `dt`, bitShiftLeft(toUInt64(transform(concat(hostName(), ':', toString(tcpPort())), ['it\'s:9000', 'b:9000'], [1, 2], toUInt32(0))), 32) + CRC32(_partition_id)) IN (
    SELECT `ch_s3_key_1`, `ch_s3_key_2`, ch_s3_version, ch_s3_place
    FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8_changes`
    WHERE ch_s3_source = 'staged' AND toUInt32(ch_s3_place) IN (660289018, 931177878)
) AND _partition_id IN ('it\'s', '202402')
LIMIT 1 BY `id`, `tail\`num`
SETTINGS parallel_distributed_insert_select = 2, insert_quorum = 0, max_partitions_per_insert_block = 0, use_index_for_in_with_subqueries_max_values = 1000000, optimize_on_insert = 0, max_execution_time = 0
