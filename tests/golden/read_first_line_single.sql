SELECT _row_number AS row, trim(TRAILING '\r' FROM line) AS line
FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'LineAsString', 'line String', 'auto')
LIMIT 1
SETTINGS
    max_threads = 1
