ALTER TABLE `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`
    MOVE PARTITION ID 'a' TO TABLE `it's`.`a\`b`,
    MOVE PARTITION ID '20130101-it\'s' TO TABLE `it's`.`a\`b`
SETTINGS max_partition_size_to_drop = 0
