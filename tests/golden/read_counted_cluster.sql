SELECT `id`, `tail\`num`
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_7_7')
WHERE (id < 3)
LIMIT 5
SETTINGS max_execution_time = 30
