INSERT INTO FUNCTION cluster('it\'s', 'it\'s', 'lines`') (file, row, line)
WITH
    trim(TRAILING '\r' FROM line) AS ch_s3_line,
    if(startsWith(ch_s3_line, '\xEF\xBB\xBF'), substring(ch_s3_line, 4), ch_s3_line) AS ch_s3_bare,
    arrayMap(name -> trim(BOTH ' "' FROM name), splitByString(';', ch_s3_bare)) AS ch_s3_names
SELECT _path, _row_number + 1, if(_row_number = 0, ch_s3_bare, ch_s3_line)
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'LineAsString', 'line String', 'auto')
WHERE
    if(_row_number = 0, throwIf(ch_s3_names != ['id', 'it\'s'], 'a file begins with another line than the first file, whose first line names its columns'), ch_s3_line != '')
SETTINGS
    max_threads = 1
