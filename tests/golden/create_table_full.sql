CREATE TABLE IF NOT EXISTS `it's`.`a\`b_local` ON CLUSTER `it's`
(
    `id` UInt64 CODEC(Delta, ZSTD),
    `tail\`num` LowCardinality(String),
    `dt` Date
)
ENGINE = ReplacingMergeTree(id)
PARTITION BY toYYYYMM(dt)
ORDER BY (dt, lower(`tail\`num`))
SETTINGS
    storage_policy = 'it\'s', index_granularity = 4096
COMMENT 'rows of it\'s.a`b, created by airflow-provider-ch-s3'
