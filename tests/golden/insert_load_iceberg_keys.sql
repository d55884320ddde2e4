INSERT INTO `d`.`all`
    (`id`, `tail\`num`)
SELECT
    `id`, `tail\`num`
FROM icebergS3Cluster('it\'s',
    'http://s3:9000/flights/it\'s/t/',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet',
    SETTINGS iceberg_metadata_file_path = 'metadata/1-it\'s.metadata.json')
WHERE id > 1
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}',
    iceberg_snapshot_id = 7
