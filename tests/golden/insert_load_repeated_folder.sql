INSERT INTO `d`.`all`
    (`id`)
WITH
    if(extract(`ch_s3_files`._path, '/id=([^/]*)/') = '' OR ifNull(`ch_s3_files`.`id` = accurateCastOrNull(extract(`ch_s3_files`._path, '/id=([^/]*)/'), 'Int64'), 0) OR ifNull(`ch_s3_files`.`id` = accurateCastOrNull(decodeURLComponent(extract(`ch_s3_files`._path, '/id=([^/]*)/')), 'Int64'), 0) OR (`ch_s3_files`.`id` IS NULL AND extract(`ch_s3_files`._path, '/id=([^/]*)/') = '__HIVE_DEFAULT_PARTITION__'), `ch_s3_files`.`id`, accurateCast(accurateCast(concat('the value ', ifNull(toString(`ch_s3_files`.`id`), 'NULL'), ' is not that in the path ', `ch_s3_files`._path), 'UInt8'), 'Nullable(Int64)')) AS `id`
SELECT
    `id`
FROM s3Cluster('it\'s',
    'http://s3:9000/flights/dt={1,2}/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64)', 'auto')
    AS `ch_s3_files`
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
