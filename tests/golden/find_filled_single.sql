SELECT _path AS path
FROM s3(
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'RowBinary', 'byte UInt8', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
GROUP BY path
HAVING countIf(byte NOT IN (9, 10, 13, 32, 91, 93, 187, 191, 239)) > 0
