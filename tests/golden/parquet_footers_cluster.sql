SELECT
    min(_path) AS path,
    sum(num_rows) AS row_count,
    any(arrayFilter((name, type) -> type = 'Null', columns.path, columns.logical_type)) AS empty_columns
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'ParquetMetadata', 'auto', 'auto')
GROUP BY sipHash128(arraySort(arrayZip(
    columns.path, columns.physical_type, columns.logical_type, columns.max_definition_level, columns.max_repetition_level)))
ORDER BY path
SETTINGS
    s3_retry_attempts = 12
