DROP TABLE IF EXISTS `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7` ON CLUSTER `it's` SYNC
SETTINGS max_table_size_to_drop = 0
