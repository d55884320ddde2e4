SELECT count() AS ch_s3_rows, countIf(`id` IS NULL OR `tail\`num` IS NULL OR `dt` IS NULL) AS ch_s3_nulls
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
SETTINGS max_execution_time = 0
