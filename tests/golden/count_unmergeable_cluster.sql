SELECT count() AS ch_s3_rows, countIf(`tail\`num` IS NULL OR isNaN(`id`)) AS ch_s3_unmergeable
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
SETTINGS max_execution_time = 0
