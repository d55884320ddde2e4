ALTER TABLE `it's`.`ch_s3_stage_52115f13b013_0123_2_7_9_merged`
DELETE WHERE ifNull((dt = '2013-01-01' OR origin IS NULL), 0) != 0
SETTINGS mutations_sync = 0
