SELECT *
FROM (
SELECT * FROM 
s3(
    `my\`keys`, url = 'http://s3:9000/flights/dt={1,2}/a.parquet',
    format = 'Parquet', structure = '`id` Int8', compression_method = 'auto')
 UNION ALL SELECT * FROM 
s3(
    `my\`keys`, url = 'http://s3:9000/flights/dt={1,2}/a.parquet',
    format = 'Parquet', structure = '`id` Int8', compression_method = 'auto')

)
LIMIT 11
SETTINGS
    max_threads = 8
