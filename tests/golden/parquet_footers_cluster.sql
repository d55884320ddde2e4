SELECT sum(num_rows) AS row_count
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'ParquetMetadata', 'num_rows UInt64', 'auto')
SETTINGS
    s3_retry_attempts = 12
