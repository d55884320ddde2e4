ALTER TABLE `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`
    DROP PART 'all_1_1_0',
    DROP PART 'it\'s\n\'); DROP TABLE x; --\\'
SETTINGS max_partition_size_to_drop = 0
