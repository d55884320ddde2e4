SELECT
    _path AS path,
    count() AS row_count
FROM s3(
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` UInt64', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
GROUP BY path
SETTINGS
    s3_retry_attempts = 12
