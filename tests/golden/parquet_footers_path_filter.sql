SELECT sum(num_rows) AS row_count
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'ParquetMetadata', 'num_rows UInt64', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
