SELECT node
FROM view(
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, count() AS row_count
    FROM
    (
        SELECT 1 AS row
        FROM s3(
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
        LIMIT 1
    )
)
ORDER BY node
