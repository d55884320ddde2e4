WITH reinterpretAsUInt128(sipHash128(formatRow('RowBinary', ch_s3_deleted, `id`, `tail\`num`, `dt`, `origin`))) AS ch_s3_digest
SELECT `id`, `tail\`num`, `dt`, count() AS ch_s3_rows
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
GROUP BY `id`, `tail\`num`, `dt`
HAVING ch_s3_rows > 1
    AND min(ch_s3_digest) != max(ch_s3_digest)
LIMIT 5
SETTINGS max_bytes_before_external_group_by = 500000000, max_execution_time = 0
