RENAME TABLE IF EXISTS `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7` TO `it's`.`ch_s3_stage_52115f13b013_0123_2_7_9` ON CLUSTER `it's`
