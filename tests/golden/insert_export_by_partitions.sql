INSERT INTO FUNCTION s3(
    'http://s3:9000/flights/out/{_partition_id}/part-ch-s3-0-1.csv.gz',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', 'auto', 'auto')
PARTITION BY concat(
    'dt=', ifNull(replaceRegexpOne(encodeURLComponent(toString(toDate(at))), '^__HIVE_DEFAULT_PARTITION__$', '%5F_HIVE_DEFAULT_PARTITION__'), '__HIVE_DEFAULT_PARTITION__'),
    '/kind=', ifNull(replaceRegexpOne(encodeURLComponent(toString(if(id = 1, 'it''s', NULL))), '^__HIVE_DEFAULT_PARTITION__$', '%5F_HIVE_DEFAULT_PARTITION__'), '__HIVE_DEFAULT_PARTITION__')
)
SELECT *
FROM (
SELECT id, dt FROM flights ORDER BY id -- all of them
)
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
