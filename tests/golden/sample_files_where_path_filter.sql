SELECT count() AS row_count, avg(row_bytes) AS mean_row_bytes
FROM
(
    SELECT byteSize(*) AS row_bytes
    FROM
    (
        SELECT
    `id` AS `id`,
    `tail\`num` AS `tail\`num`
        FROM s3(
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
WHERE NOT (0 AND (id > 0 OR dt = '2013-01-01')) AND _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
        LIMIT 100
    )
)
SETTINGS
    max_threads = 4,
    prefer_column_name_to_alias = 1
