WITH reinterpretAsUInt128(sipHash128(formatRow('RowBinary', ch_s3_deleted, `id`, `tail\`num`, `dt`, `origin`))) AS ch_s3_digest
SELECT `id`, `tail\`num`, `dt`, count() AS ch_s3_rows
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
WHERE cityHash64(`id`, `tail\`num`) % 3 = 1
    AND (`id`, `tail\`num`, `dt`) GLOBAL IN (
        SELECT `id`, `tail\`num`, `dt`
        FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
        WHERE cityHash64(`id`, `tail\`num`) % 3 = 1
        GROUP BY `id`, `tail\`num`, `dt`
        HAVING count() > 1
    )
GROUP BY `id`, `tail\`num`, `dt`
HAVING min(ch_s3_digest) != max(ch_s3_digest)
LIMIT 5
SETTINGS max_execution_time = 0
