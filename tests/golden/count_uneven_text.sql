SELECT
    pair.1 AS first,
    pair.2 AS other,
    count() AS row_count
FROM
(
    SELECT [if(length(`id`) != length(`tail\`num`), ('id', 'tail`num'), ('', ''))] AS ch_s3_uneven
    FROM s3(
    'http://s3:9000/flights/dt=1/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'CSVWithNames', '`id` Nullable(Int64), `tail\\`num` String, `it\'s at` Nullable(String)', 'auto')
    LIMIT 10
    UNION ALL
    SELECT [if(length(`id`) != length(`tail\`num`), ('id', 'tail`num'), ('', ''))] AS ch_s3_uneven
    FROM s3(
    'http://s3:9000/flights/dt=2/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'CSVWithNames', '`id` Nullable(Int64), `tail\\`num` String, `it\'s at` Nullable(String)', 'auto')
    LIMIT 10
)
ARRAY JOIN ch_s3_uneven AS pair
WHERE pair.1 != ''
GROUP BY first, other
ORDER BY first, other
SETTINGS
    max_threads = 1
