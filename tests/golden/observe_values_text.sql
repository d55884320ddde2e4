SELECT
    name,
    count() AS row_count,
    countIf(value IS NULL) AS null_count,
    countIf(value = '') AS empty_count,
    groupUniqArray(9)(sipHash64(value)) AS hashes,
    [countIf(match(value, '^[0-9]+$')), countIf((match(value, 'it\'s') AND (length(value) <= 15 OR length(trim(BOTH '0' FROM replaceOne(extract(value, '^[+-]?([0-9.]*)'), '.', ''))) <= 15 OR trim(BOTH '0' FROM replaceOne(extract(value, '^[+-]?([0-9.]*)'), '.', '')) = trim(BOTH '0' FROM replaceOne(extract(toString(toFloat64OrZero(value)), '^[+-]?([0-9.]*)'), '.', '')))))] AS fits,
    ifNull(minIf(value, value != '' AND NOT match(value, '^[0-9]+$') AND NOT (match(value, 'it\'s') AND (length(value) <= 15 OR length(trim(BOTH '0' FROM replaceOne(extract(value, '^[+-]?([0-9.]*)'), '.', ''))) <= 15 OR trim(BOTH '0' FROM replaceOne(extract(value, '^[+-]?([0-9.]*)'), '.', '')) = trim(BOTH '0' FROM replaceOne(extract(toString(toFloat64OrZero(value)), '^[+-]?([0-9.]*)'), '.', ''))))), '') AS odd,
    ifNull(minIf(value, value != ''), '') AS low,
    ifNull(maxIf(value, value != ''), '') AS high,
    ifNull(max(length(extract(value, '\\.([0-9]+)'))), 0) AS digits
FROM
(
    SELECT
        ['id', 'tail`num'] AS ch_s3_names,
        [CAST(`id` AS Nullable(String)), CAST(`tail\`num` AS Nullable(String))] AS ch_s3_values
    FROM s3(
    'http://s3:9000/flights/dt=1/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'CSVWithNames', '`id` Nullable(Int64), `tail\\`num` String, `it\'s at` Nullable(String)', 'auto')
    LIMIT 10
    UNION ALL
    SELECT
        ['id', 'tail`num'] AS ch_s3_names,
        [CAST(`id` AS Nullable(String)), CAST(`tail\`num` AS Nullable(String))] AS ch_s3_values
    FROM s3(
    'http://s3:9000/flights/dt=2/a.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'CSVWithNames', '`id` Nullable(Int64), `tail\\`num` String, `it\'s at` Nullable(String)', 'auto')
    LIMIT 10
)
ARRAY JOIN ch_s3_names AS name, ch_s3_values AS value
GROUP BY name
SETTINGS
    max_threads = 1
