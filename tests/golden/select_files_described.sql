DESCRIBE TABLE (
SELECT *
FROM (
SELECT count() AS n FROM 
s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', 'auto', 'auto')
 WHERE id > 0 -- {not: a parameter}
)
LIMIT 11
)
SETTINGS
    max_threads = 8
