SELECT 0 AS number, hex(arrayStringConcat(arrayMap(byte -> char(byte), groupArray(byte)))) AS head
FROM
(
    SELECT byte
    FROM s3(
    'http://s3:9000/flights/it\'s?1.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'RowBinary', 'byte UInt8', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet')
    LIMIT 8192
)
SETTINGS
    max_threads = 1, max_block_size = 8192
