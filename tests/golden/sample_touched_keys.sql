SELECT DISTINCT _partition_id AS partition_id
FROM cluster('it\'s', 'it\'s', 'a`b')
WHERE (`id`) GLOBAL IN
(
WITH
    (text, day, made) -> if(toString(day) = text, day, if(match(text, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(text, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), made, accurateCast(concat(text, ' does not fit'), 'Date32'))) AS ch_s3_date,
    accurateCast(ch_s3_date(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), toDate32(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/'))), toDate32(parseDateTime64BestEffort(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), 1, 'UTC'))), 'Date') AS `dt`
    SELECT
    accurateCast(`id`, 'Nullable(UInt64)')
    FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
    AS `ch_s3_files`
WHERE id > 0
    LIMIT 100
)
SETTINGS
    input_format_skip_unknown_fields = 1, max_execution_time = 10
