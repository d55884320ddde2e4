INSERT INTO `it's`.`lines\`` (file, row, line)
WITH
    trim(TRAILING '\r' FROM line) AS ch_s3_line
SELECT _path, _row_number + 1, ch_s3_line
FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'LineAsString', 'line String', 'auto')
WHERE
    ch_s3_line != ''
SETTINGS
    max_threads = 1
