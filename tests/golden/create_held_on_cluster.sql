CREATE VIEW IF NOT EXISTS `it's`.`ch_s3_stage_52115f13b013_0123_2_7_9_feed0` ON CLUSTER `it's`
AS SELECT * FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_7_7')
