INSERT INTO `it's`.`a\`b`
    (`id`, `tail\`num`)
SELECT
    `id`,
    `tail\`num`
FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
SETTINGS
    max_insert_threads = 4,
    date_time_input_format = 'best_effort',
    log_comment = '{"dag": "it\'s"}',
    prefer_column_name_to_alias = 1
