INSERT INTO `d`.`all`
    (`id`, `a`, `b`, `c`, `d`, `e`, `f`, `g`)
WITH
    (number, made) -> if(isFinite(made) OR NOT isFinite(number), made, accurateCast(number, 'Float32')) AS ch_s3_float,
    (text, day, made) -> if(toString(day) = text, day, if(match(text, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(text, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), made, accurateCast(concat(text, ' does not fit'), 'Date32'))) AS ch_s3_date,
    (text, made, cut) -> if((startsWith(toString(made), text) AND length(text) != 21) OR (NOT match(text, cut) AND (match(text, '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])[T ]([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d([.,]\\d+)?)?(Z|[+-]([01]\\d|2[0-3]):?[0-5]\\d)?$') OR (match(text, '\\d{4}') AND NOT match(text, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)')))), made, accurateCast(concat(text, ' does not fit'), 'Date32')) AS ch_s3_time,
    (text, made, cut, refused) -> if(NOT match(text, cut) OR (match(text, '[eE]') AND toFloat64(text) = toFloat64(made)), made, refused) AS ch_s3_decimal,
    (text, made, refused) -> if(toString(made) = text, made, refused) AS ch_s3_integer,
    accurateCast(ch_s3_date(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), toDate32(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/'))), toDate32(parseDateTime64BestEffort(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), 1, 'UTC'))), 'Date') AS `dt`
SELECT
    accurateCast((id + 255), 'UInt8'), if(`a` IS NULL, NULL, accurateCast(assumeNotNull(`a`), 'UInt64')),
    accurateCast(ch_s3_date(`b`, toDate32(`b`), toDate32(parseDateTime64BestEffort(`b`, 1, 'UTC'))), 'Date'),
    if(`c` IS NULL, NULL, accurateCast(ch_s3_time(assumeNotNull(`c`), parseDateTime64BestEffort(assumeNotNull(`c`), 1, 'UTC'), '(:\\d\\d|\\d{6})[.,]\\d{0}\\d*[1-9]'), 'DateTime(\'UTC\')')),
    ch_s3_decimal(`d`, accurateCast(`d`, 'Decimal(9, 2)'), '\\.\\d{2}\\d*[1-9]|[eE]|^\\D*$', accurateCast(concat(`d`, ' does not fit'), 'Decimal(9, 2)')),
    ch_s3_integer(toString(`e`), accurateCast(toString(`e`), 'UInt256'), accurateCast(concat(toString(`e`), ' does not fit'), 'UInt256')),
    if(`f` IS NULL, NULL, ch_s3_float(toFloat64(assumeNotNull(`f`)), toFloat32(assumeNotNull(`f`)))),
    if(`g` IS NULL, NULL, accurateCast(assumeNotNull(`g`), 'DateTime64(3)') + if(NOT (accurateCast(assumeNotNull(`g`), 'DateTime64(3)') = assumeNotNull(`g`) AND assumeNotNull(`g`) BETWEEN toDateTime64('0001-01-01 00:00:00', 3, 'UTC') AND toDateTime64('9999-12-31 23:59:59.999', 3, 'UTC')), toInt32(accurateCast(concat(toString(assumeNotNull(`g`)), ' does not fit'), 'Date32')), 0))
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
    AS `ch_s3_files`
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
