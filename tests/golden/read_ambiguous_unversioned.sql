SELECT `id`, `tail\`num`, count() AS ch_s3_rows
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
WHERE 1
GROUP BY `id`, `tail\`num`
HAVING ch_s3_rows > 1
LIMIT 5
SETTINGS max_execution_time = 0
