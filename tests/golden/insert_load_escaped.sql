INSERT INTO `d`.`all`
    (`id`, `tail\`num`)
WITH
    if(nullIf(trim(BOTH ' \t' FROM if(startsWith(`ch_s3_files`.`id`, '"'), replaceRegexpAll(substring(`ch_s3_files`.`id`, 2, length(`ch_s3_files`.`id`) - 2), '\\\\(["\\\\])', '\\1'), nullIf(`ch_s3_files`.`id`, ''))), '') IS NULL, NULL, accurateCast(assumeNotNull(nullIf(trim(BOTH ' \t' FROM if(startsWith(`ch_s3_files`.`id`, '"'), replaceRegexpAll(substring(`ch_s3_files`.`id`, 2, length(`ch_s3_files`.`id`) - 2), '\\\\(["\\\\])', '\\1'), nullIf(`ch_s3_files`.`id`, ''))), '')), 'Int64')) AS `id`,
    if(startsWith(`ch_s3_files`.`tail\`num`, '"'), replaceRegexpAll(substring(`ch_s3_files`.`tail\`num`, 2, length(`ch_s3_files`.`tail\`num`) - 2), '\\\\(["\\\\])', '\\1'), `ch_s3_files`.`tail\`num`) AS `tail\`num`
SELECT
    `id`, `tail\`num`
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Regexp', '`id` Nullable(String), `tail\\`num` String', 'auto')
    AS `ch_s3_files`
WHERE NOT (ifNull(`ch_s3_files`.`id` IN ('id', '"id"'), 0) AND ifNull(`ch_s3_files`.`tail\`num` IN ('it\'s', '"it\'s"'), 0)) AND (id > 1)
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
