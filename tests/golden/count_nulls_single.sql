SELECT
    part.path AS name,
    sum(part.statistics.null_count) AS null_count,
    min(part.have_statistics AND part.statistics.null_count IS NOT NULL) AS is_known
FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'ParquetMetadata', 'auto', 'auto')
ARRAY JOIN arrayFilter(one -> one.num_rows > 0, row_groups) AS rows
ARRAY JOIN rows.columns AS part
GROUP BY name
ORDER BY name
