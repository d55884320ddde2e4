SELECT _path AS path, arrayMax(arrayMap(one -> one.total_uncompressed_size, row_groups)) AS row_group_bytes
FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'ParquetMetadata', 'auto', 'auto')
ORDER BY row_group_bytes DESC
LIMIT 1
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
