INSERT INTO `it's`.`a\`b`
    (`id`, `tail\`num`)
SELECT
    `id`, `tail\`num`
FROM icebergS3(
    `my\`keys`, url = 'http://s3:9000/flights/it\'s/t/', format = 'Parquet',
    SETTINGS iceberg_metadata_file_path = 'metadata/1-it\'s.metadata.json')
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}',
    iceberg_snapshot_id = 7
