INSERT INTO `d`.`all`
    (`id`, `tail\`num`)
WITH
    (text, made, cut) -> if((startsWith(toString(made), text) AND length(text) != 21) OR (NOT match(text, cut) AND (match(text, '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])[T ]([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d([.,]\\d+)?)?(Z|[+-]([01]\\d|2[0-3]):?[0-5]\\d)?$') OR (match(text, '\\d{4}') AND NOT match(text, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)')))), made, accurateCast(concat(text, ' does not fit'), 'Date32')) AS ch_s3_time,
    if(`ch_s3_files`.`it's at` IS NULL, NULL, accurateCast(ch_s3_time(assumeNotNull(`ch_s3_files`.`it's at`), parseDateTime64BestEffort(assumeNotNull(`ch_s3_files`.`it's at`), 3), '(:\\d\\d|\\d{6})[.,]\\d{3}\\d*[1-9]'), 'DateTime64(3)')) AS `it's at`,
    if(decodeURLComponent(nullIf(extract(`ch_s3_files`._path, '/dt`=([^/]*)/'), '__HIVE_DEFAULT_PARTITION__')) IS NULL, NULL, accurateCast(assumeNotNull(decodeURLComponent(nullIf(extract(`ch_s3_files`._path, '/dt`=([^/]*)/'), '__HIVE_DEFAULT_PARTITION__'))), 'UInt8')) AS `dt\``
SELECT
    `id`, `tail\`num`
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'CSVWithNames', '`id` Nullable(Int64), `tail\\`num` String, `it\'s at` Nullable(String)', 'auto')
    AS `ch_s3_files`
WHERE `it's at` > '2013-01-01'
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
