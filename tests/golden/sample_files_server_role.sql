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
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
        LIMIT 100
    )
)
SETTINGS
    max_threads = 4,
    prefer_column_name_to_alias = 1
