ALTER TABLE `it's`.`a\`b`
    REPLACE PARTITION ID 'a' FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`,
    REPLACE PARTITION ID '20130101-it\'s' FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`
SETTINGS max_partition_size_to_drop = 0
