INSERT INTO `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`
    (`id`, `tail\`num`)
SELECT
    `id`, `tail\`num`
FROM deltaLake(
    'http://s3:9000/flights/it\'s/t/',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet')
QUALIFY rank() OVER (
    PARTITION BY `id`
    ORDER BY -_commit_version, _change_type = 'delete') = 1
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}',
    delta_lake_snapshot_version = 0
