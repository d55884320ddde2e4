CREATE TABLE `it's`.`a\`b` ON CLUSTER `it's`
(
    `id` UInt64,
    `name` LowCardinality(String)
)
ENGINE = ReplacingMergeTree
ORDER BY (`id`, `name`)
PARTITION BY toDate(id)
SETTINGS storage_policy = 'it\'s'
