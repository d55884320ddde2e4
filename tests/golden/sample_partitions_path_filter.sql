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
                _path AS ch_s3_path,
    `id` AS `id`,
    `tail\`num` AS `tail\`num`
            FROM s3(
    'http://s3:9000/flights/it\'s?{1,2}.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet', 'flights/it\'s 2.parquet')
        )
    )
    GROUP BY ch_s3_path
)
SETTINGS
    max_threads = 4,
    max_execution_time = 1,
    timeout_overflow_mode = 'break',
    prefer_column_name_to_alias = 1
