INSERT INTO `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`
    (`id`, `tail\`num`)
WITH
    (_path IN ('flights/it\'s/t/a,1.parquet', 'flights/it\'s/t/b') AND (_path, _row_number) NOT IN (
        SELECT replaceRegexpOne(file_path, '^[a-z0-9]+://([^/@]+)(@[^/]*)?/+', '\\1/'), toUInt64(pos)
        FROM s3(
    'http://s3:9000/flights/it\'s/t/d1',
    {s3_access_key:String}, {s3_secret_key:String}, {s3_session_token:String},
    'Parquet', '`file_path` String, `pos` Int64', 'auto')
    )) AS `ch_s3_was_there`,
    (_path IN ('flights/it\'s/t/b', 'flights/it\'s/t/c') AND (_path, _row_number) NOT IN (
        SELECT replaceRegexpOne(file_path, '^[a-z0-9]+://([^/@]+)(@[^/]*)?/+', '\\1/'), toUInt64(pos)
        FROM s3(
    'http://s3:9000/flights/it\'s/t/d{1,2}',
    {s3_access_key:String}, {s3_secret_key:String}, {s3_session_token:String},
    'Parquet', '`file_path` String, `pos` Int64', 'auto')
    )) AS `ch_s3_is_there`
SELECT
    `id`, `tail\`num`
FROM s3(
    'http://s3:9000/flights/it\'s/t/{a?1.parquet,b,c}',
    {s3_access_key:String}, {s3_secret_key:String}, {s3_session_token:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
WHERE ch_s3_was_there != ch_s3_is_there AND _path IN ('flights/it\'s/t/a,1.parquet', 'flights/it\'s/t/b', 'flights/it\'s/t/c')
QUALIFY rank() OVER (
    PARTITION BY `id`
    ORDER BY ch_s3_was_there) = 1
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
