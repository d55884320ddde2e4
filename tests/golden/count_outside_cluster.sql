SELECT count() AS ch_s3_rows, countIf(ifNull((dt = '2013-01-01' OR origin IS NULL), 0) = 0) AS ch_s3_outside
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_7_7')
SETTINGS max_execution_time = 0
