INSERT INTO `d`.`all`
    (`id`, `tail\`num`)
SELECT
    `id`, `tail\`num`
FROM icebergS3Cluster('it\'s',
    'http://s3:9000/flights/it\'s/t/',
    'Parquet',
    extra_credentials(role_arn = 'arn:aws:iam::1:role/it\'s', external_id = {s3_external_id:String}),
    SETTINGS iceberg_metadata_file_path = 'metadata/1-it\'s.metadata.json')
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}',
    iceberg_snapshot_id = 7
