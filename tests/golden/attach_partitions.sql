ALTER TABLE `it's`.`ch_s3_stage_52115f13b013_0123_2_7_9_merged`
    ATTACH PARTITION ID 'a' FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`,
    ATTACH PARTITION ID '20130101-it\'s' FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`
