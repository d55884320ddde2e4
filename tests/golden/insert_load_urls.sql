INSERT INTO `d`.`all`
    (`id`, `tail\`num`)
WITH
    (text, day, made) -> if(toString(day) = text, day, if(match(text, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(text, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), made, accurateCast(concat(text, ' does not fit'), 'Date32'))) AS ch_s3_date,
    accurateCast(ch_s3_date(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), toDate32(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/'))), toDate32(parseDateTime64BestEffort(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), 1, 'UTC'))), 'Date') AS `dt`
SELECT
    `id`, `tail\`num`
FROM urlCluster('it\'s',
    'https://h:9/it\'s%20%7B1%7D/{a%2Cb,c}.parquet',
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
    AS `ch_s3_files`
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
