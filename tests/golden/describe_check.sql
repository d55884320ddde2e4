DESCRIBE TABLE
(
    SELECT (max(`tail\`num`) LIKE 'N%') AS ch_s3_result
    FROM (SELECT `id`, `tail\`num` FROM `it's`.`a\`b`)
)
