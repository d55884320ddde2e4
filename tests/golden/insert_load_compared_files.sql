INSERT INTO FUNCTION cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_7_7', cityHash64(id, 'it\'s'))
    (`id`, `tail\`num`)
WITH
    (_path IN ('flights/it\'s/t/a,1.parquet', 'flights/it\'s/t/b')) AS `ch_s3_was_there`,
    (_path IN ('flights/it\'s/t/b', 'flights/it\'s/t/c')) AS `ch_s3_is_there`
SELECT
    accurateCast(`id`, 'Nullable(UInt64)'), (upper(`tail`))
FROM s3(
    'http://s3:9000/flights/it\'s/t/{a?1.parquet,b,c}',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
WHERE ch_s3_was_there != ch_s3_is_there AND (id > 1 OR id = 0) AND _path IN ('flights/it\'s/t/a,1.parquet', 'flights/it\'s/t/b', 'flights/it\'s/t/c')
QUALIFY rank() OVER (
    PARTITION BY accurateCast(`id`, 'Nullable(UInt64)'), (upper(`tail`))
    ORDER BY ch_s3_was_there) = 1
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
