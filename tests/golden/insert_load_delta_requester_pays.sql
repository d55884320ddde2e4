INSERT INTO `it's`.`a\`b`
    (`id`, `tail\`num`)
SELECT
    `id`, `tail\`num`
FROM deltaLake(
    'http://s3:9000/flights/it\'s/t/',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet',
    headers('x-amz-request-payer' = 'requester'))
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}',
    delta_lake_snapshot_version = 0
