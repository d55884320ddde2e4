SELECT
    ch_s3_row AS row,
    multiIf(ch_s3_misfit_1, 1, ch_s3_misfit_2, 2, ch_s3_misfit_3, 3, 0) AS number,
    multiIf(ch_s3_misfit_1, toString(`ch_s3_1`), ch_s3_misfit_2, toString(`ch_s3_2`), ch_s3_misfit_3, toString(`ch_s3_3`), NULL) AS value
FROM
(
    SELECT
        *,
        ifNull(isNotNull(`ch_s3_1`) AND (isNull(accurateCastOrNull(`ch_s3_1`, 'UInt16'))), 0) AS ch_s3_misfit_1,
        ifNull(isNotNull(`ch_s3_2`) AND (isNull(accurateCastOrNull(`ch_s3_2`, 'Date')) OR accurateCastOrNull(`ch_s3_2`, 'Date') != `ch_s3_2`), 0) AS ch_s3_misfit_2,
        isNull(`ch_s3_3`) AS ch_s3_misfit_3
    FROM
    (
WITH
    (text, day, made) -> if(toString(day) = text, day, if(match(text, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(text, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), made, accurateCast(concat(text, ' does not fit'), 'Date32'))) AS ch_s3_date,
    accurateCast(ch_s3_date(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), toDate32(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/'))), toDate32(parseDateTime64BestEffort(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), 1, 'UTC'))), 'Date') AS `dt`
        SELECT
            rowNumberInAllBlocks() AS ch_s3_row,
            (id > 0) AS ch_s3_wanted,
    `id` AS `ch_s3_1`,
    (dt + 1) AS `ch_s3_2`,
    `tail\`num` AS `ch_s3_3`
        FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
    AS `ch_s3_files`
    )
)
WHERE ch_s3_wanted AND number
LIMIT 1
SETTINGS
    max_threads = 1, max_execution_time = 30, timeout_overflow_mode = 'throw',
    date_time_overflow_behavior = 'saturate'
