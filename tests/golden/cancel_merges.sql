ALTER TABLE `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7` DROP PARTITION ID 'ch_s3_none'
