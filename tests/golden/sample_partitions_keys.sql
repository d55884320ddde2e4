SELECT
    count() AS files,
    avg(partitions_in_file) AS partitions_per_file,
    uniqExactMerge(partition_state) AS partitions
FROM
(
    SELECT uniqExact(partition) AS partitions_in_file, uniqExactState(partition) AS partition_state
    FROM
    (
        SELECT tuple(toYYYYMM(dt), id % 4) AS partition, ch_s3_path
        FROM
        (
            SELECT
                ch_s3_path,
                `ch_s3_1` AS `id`,
                `ch_s3_2` AS `tail\`num`,
                `ch_s3_3` AS `dt`
            FROM
            (
WITH
    (text, day, made) -> if(toString(day) = text, day, if(match(text, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(text, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), made, accurateCast(concat(text, ' does not fit'), 'Date32'))) AS ch_s3_date,
    accurateCast(ch_s3_date(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), toDate32(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/'))), toDate32(parseDateTime64BestEffort(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/')), 1, 'UTC'))), 'Date') AS `dt`
                SELECT
                    _path AS ch_s3_path,
    accurateCast(`id`, 'Nullable(UInt64)') AS `ch_s3_1`,
    (upper(`tail`)) AS `ch_s3_2`,
    `dt` AS `ch_s3_3`
                FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
    AS `ch_s3_files`
            )
        )
    )
    GROUP BY ch_s3_path
)
SETTINGS
    max_threads = 4, input_format_skip_unknown_fields = 1, max_execution_time = 1, timeout_overflow_mode = 'break'
