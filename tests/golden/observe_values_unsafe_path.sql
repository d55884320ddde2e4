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
        ['id'] AS ch_s3_names,
        [CAST(`id` AS Nullable(String))] AS ch_s3_values
    FROM s3(
    'http://s3:9000/flights/it\'s?1.parquet',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet', '`id` Nullable(Int64), `tail\\`num` String', 'auto')
WHERE _path IN ('flights/it\'s 1.parquet')
    LIMIT 10
)
ARRAY JOIN ch_s3_names AS name, ch_s3_values AS value
GROUP BY name
SETTINGS
    max_threads = 1
