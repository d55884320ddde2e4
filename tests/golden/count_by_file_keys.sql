SELECT
    _path AS path,
    count() AS row_count
FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` UInt64', 'auto')
GROUP BY path
SETTINGS
    s3_retry_attempts = 12
