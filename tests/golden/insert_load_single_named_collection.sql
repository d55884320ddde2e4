INSERT INTO `it's`.`a\`b`
    (`id`, `tail\`num`)
SELECT
    `id`,
    `tail\`num`
FROM s3(
    `my\`keys`, url = 'http://s3:9000/flights/dt={1,2}/a.parquet',
    format = 'Parquet', structure = '`id` Nullable(Int64), `tail\\`num` String', compression_method = 'auto')
SETTINGS
    max_insert_threads = 4,
    date_time_input_format = 'best_effort',
    log_comment = '{"dag": "it\'s"}',
    prefer_column_name_to_alias = 1
