SELECT
    count() AS files,
    avg(partitions_in_file) AS partitions_per_file,
    uniqExactMerge(partition_state) AS partitions
FROM
(
    SELECT uniqExact(partition) AS partitions_in_file, uniqExactState(partition) AS partition_state
    FROM
    (
        SELECT tuple(id) AS partition, ch_s3_path
        FROM
        (
            SELECT
                ch_s3_path,
                `ch_s3_1` AS `id`,
                `ch_s3_2` AS `tail\`num`
            FROM
            (
WITH
    (text) -> if(toString(toDateOrZero(text)) = text, toDateOrZero(text), if(match(text, '^(?:(?:(?:(?:19[7-9][0-9]|20[0-9]{2}|21[0-3][0-9]|214[0-8])-(?:(?:0?[13578]|1[02])-(?:0?[1-9]|[12][0-9]|3[01])|(?:0?[469]|11)-(?:0?[1-9]|[12][0-9]|30)|0?2-(?:0?[1-9]|1[0-9]|2[0-8]))|(?:19(?:[79][26]|8[048])|20(?:0[048]|[2468][048]|[13579][26])|21(?:0[48]|[13][26]|[24][048]))-0?2-29|2149-(?:0?[135]-(?:0?[1-9]|[12][0-9]|3[01])|0?2-(?:0?[1-9]|1[0-9]|2[0-8])|0?4-(?:0?[1-9]|[12][0-9]|30)|0?6-0?[1-6]))|(?:(?:19[7-9][0-9]|20[0-9]{2}|21[0-3][0-9]|214[0-8])/(?:(?:0?[13578]|1[02])/(?:0?[1-9]|[12][0-9]|3[01])|(?:0?[469]|11)/(?:0?[1-9]|[12][0-9]|30)|0?2/(?:0?[1-9]|1[0-9]|2[0-8]))|(?:19(?:[79][26]|8[048])|20(?:0[048]|[2468][048]|[13579][26])|21(?:0[48]|[13][26]|[24][048]))/0?2/29|2149/(?:0?[135]/(?:0?[1-9]|[12][0-9]|3[01])|0?2/(?:0?[1-9]|1[0-9]|2[0-8])|0?4/(?:0?[1-9]|[12][0-9]|30)|0?6/0?[1-6]))|(?:(?:19[7-9][0-9]|20[0-9]{2}|21[0-3][0-9]|214[0-8])\\.(?:(?:0?[13578]|1[02])\\.(?:0?[1-9]|[12][0-9]|3[01])|(?:0?[469]|11)\\.(?:0?[1-9]|[12][0-9]|30)|0?2\\.(?:0?[1-9]|1[0-9]|2[0-8]))|(?:19(?:[79][26]|8[048])|20(?:0[048]|[2468][048]|[13579][26])|21(?:0[48]|[13][26]|[24][048]))\\.0?2\\.29|2149\\.(?:0?[135]\\.(?:0?[1-9]|[12][0-9]|3[01])|0?2\\.(?:0?[1-9]|1[0-9]|2[0-8])|0?4\\.(?:0?[1-9]|[12][0-9]|30)|0?6\\.0?[1-6])))(?:[T ]00:00(?::00(?:[.,]0+)?)?(?:Z|[+-]00:?00| UTC| GMT)?)?|(?:(?:19[7-9][0-9]|20[0-9]{2}|21[0-3][0-9]|214[0-8])(?:(?:0[13578]|1[02])(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)(?:0[1-9]|[12][0-9]|30)|02(?:0[1-9]|1[0-9]|2[0-8]))|(?:19(?:[79][26]|8[048])|20(?:0[048]|[2468][048]|[13579][26])|21(?:0[48]|[13][26]|[24][048]))0229|2149(?:0[135](?:0[1-9]|[12][0-9]|3[01])|02(?:0[1-9]|1[0-9]|2[0-8])|04(?:0[1-9]|[12][0-9]|30)|060[1-6])))$') AND isNotNull(parseDateTime64BestEffortOrNull(replaceOne(text, ',', '.'), 1, 'UTC')), toDate(assumeNotNull(parseDateTime64BestEffortOrNull(replaceOne(text, ',', '.'), 1, 'UTC'))), accurateCast(toString(accurateCast(concat(text, ' does not fit'), 'Date32')), 'Date'))) AS ch_s3_Date,
    ch_s3_Date(decodeURLComponent(extract(`ch_s3_files`._path, '/dt=([^/]*)/'))) AS `dt`
                SELECT
                    _path AS ch_s3_path,
    `id` AS `ch_s3_1`,
    `tail\`num` AS `ch_s3_2`
                FROM s3(
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
    AS `ch_s3_files`
WHERE _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
            )
        )
    )
    GROUP BY ch_s3_path
)
SETTINGS
    max_threads = 4, input_format_skip_unknown_fields = 1, max_execution_time = 1, timeout_overflow_mode = 'break'
