SELECT count() AS row_count, avg(row_bytes) AS mean_row_bytes
FROM
(
    SELECT byteSize(*) - byteSize(`tail\`num`, `dt`) + 2 AS row_bytes
    FROM
    (
        SELECT
    accurateCast(`id`, 'Nullable(UInt64)') AS `id`,
    upper(`tail`) AS `tail\`num`,
    `dt` AS `dt`
        FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
WHERE NOT (0 AND (id > 0 OR dt = '2013-01-01'))
        LIMIT 100
    )
)
SETTINGS
    max_threads = 4,
    prefer_column_name_to_alias = 1
