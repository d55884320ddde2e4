CREATE TABLE IF NOT EXISTS `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8` ON CLUSTER `it's`
(
    `id` UInt64,
    `tail\`num` String DEFAULT 'it\'s',
    `dt` Date,
    `origin` Nullable(String),
    `ch_s3_deleted` Bool
)
ENGINE = MergeTree PARTITION BY dt ORDER BY id SETTINGS index_granularity = 8192
COMMENT 'rows that will be committed to it\'s.a`b, staged by ch-s3-0123-2-8'
SETTINGS allow_suspicious_low_cardinality_types = 1
