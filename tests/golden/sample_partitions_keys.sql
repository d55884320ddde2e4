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
                _path AS ch_s3_path,
    accurateCast(`id`, 'Nullable(UInt64)') AS `id`,
    upper(`tail`) AS `tail\`num`,
    `dt` AS `dt`
            FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
        )
    )
    GROUP BY ch_s3_path
)
SETTINGS
    max_threads = 4,
    max_execution_time = 1,
    timeout_overflow_mode = 'break',
    prefer_column_name_to_alias = 1
