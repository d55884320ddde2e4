SELECT count() AS ch_s3_rows, countIf(ifNull(((`id`, `tail\`num`) IN (SELECT `ch_s3_key_1`, `ch_s3_key_2` FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8_changes` WHERE ch_s3_drops)), 0) = 0) AS ch_s3_outside
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8_merged')
SETTINGS max_execution_time = 0
