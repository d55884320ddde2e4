INSERT INTO `it's`.`lines\`` (file, row, line)
WITH
    trim(TRAILING '\r' FROM line) AS ch_s3_line,
    if(startsWith(ch_s3_line, '\xEF\xBB\xBF'), substring(ch_s3_line, 4), ch_s3_line) AS ch_s3_bare,
    arrayMap(name -> trim(BOTH ' "' FROM name), splitByString(',', ch_s3_bare)) AS ch_s3_names
SELECT _path, _row_number + 1, if(_row_number = 0, ch_s3_bare, ch_s3_line)
FROM s3(
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'LineAsString', 'line String', 'auto')
WHERE
    if(_row_number = 0, throwIf(arrayAll(name -> lower(name) IN ('id'), ch_s3_names), 'a file begins with names of columns, and the first file does not') = 0, 1)
    AND _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
SETTINGS
    max_threads = 1
