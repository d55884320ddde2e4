CREATE TABLE IF NOT EXISTS `it's`.`a\`b_local`
(
    `id` UInt64 CODEC(Delta, ZSTD),
    `tail\`num` LowCardinality(String),
    `dt` Date
)
ENGINE = MergeTree
ORDER BY tuple()
COMMENT 'rows of it\'s.a`b_local, created by airflow-provider-ch-s3'
