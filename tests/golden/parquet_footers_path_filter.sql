SELECT
    min(_path) AS path,
    sum(num_rows) AS row_count,
    any(arrayFilter((name, type) -> type = 'Null', columns.path, columns.logical_type)) AS empty_columns
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'ParquetMetadata', 'auto', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
GROUP BY sipHash128(arraySort(arrayZip(
    columns.path, columns.physical_type, columns.logical_type, columns.max_definition_level, columns.max_repetition_level)))
ORDER BY path
