SELECT *
FROM (
SELECT count() AS n FROM 
(SELECT * FROM s3(
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', 'auto', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
)
 WHERE id > 0 -- {not: a parameter}
)
LIMIT 11
SETTINGS
    max_threads = 8
