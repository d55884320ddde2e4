SELECT node
FROM clusterAllReplicas('it\'s', view(
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, count() AS row_count
    FROM
    (
        SELECT 1 AS row
        FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
        LIMIT 1
    )
))
ORDER BY node
