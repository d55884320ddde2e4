SELECT count() AS row_count
FROM s3(
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
    AS `ch_s3_files`
SETTINGS
    max_threads = 4, max_execution_time = 1, timeout_overflow_mode = 'throw', input_format_skip_unknown_fields = 1
