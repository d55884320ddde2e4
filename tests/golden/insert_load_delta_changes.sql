INSERT INTO FUNCTION cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_7_7', cityHash64(id, 'it\'s'))
    (`id`, `tail\`num`)
SELECT
    accurateCast(`id`, 'Nullable(UInt64)'), (upper(`tail`))
FROM deltaLake(
    'http://s3:9000/flights/it\'s/t/',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet')
WHERE id > 1
QUALIFY rank() OVER (
    PARTITION BY accurateCast(`id`, 'Nullable(UInt64)'), (upper(`tail`))
    ORDER BY -_commit_version, _change_type = 'delete') = 1
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}',
    delta_lake_snapshot_version = 0
