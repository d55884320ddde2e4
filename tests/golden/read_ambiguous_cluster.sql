SELECT `id`, `tail\`num`, `dt`, count() AS ch_s3_rows
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
GROUP BY `id`, `tail\`num`, `dt`
HAVING ch_s3_rows > 1
    AND uniqExact(ch_s3_deleted, sipHash128(formatRow('RowBinary', `id`, `tail\`num`, `dt`, `origin`))) > 1
LIMIT 5
SETTINGS max_execution_time = 0
