ALTER TABLE `it's`.`ch_s3_stage_52115f13b013_0123_2_7_9_merged`
DELETE WHERE 0
SETTINGS mutations_sync = 2
