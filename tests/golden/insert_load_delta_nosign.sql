INSERT INTO `d`.`all`
    (`id`, `tail\`num`)
SELECT
    `id`, `tail\`num`
FROM deltaLakeCluster('it\'s',
    'http://s3:9000/flights/it\'s/t/',
    NOSIGN,
    'Parquet')
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}',
    delta_lake_snapshot_version = 0
