CREATE TABLE IF NOT EXISTS `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8_changes` ON CLUSTER `it's`
(
    `ch_s3_key_1` UInt64,
    `ch_s3_key_2` String,
    ch_s3_version Date,
    ch_s3_outcome LowCardinality(String),
    ch_s3_drops UInt8,
    ch_s3_source LowCardinality(String),
    ch_s3_place UInt64,
    ch_s3_held_in UInt32,
    ch_s3_staged_rows UInt64,
    ch_s3_held_rows UInt64
)
ENGINE = MergeTree ORDER BY ch_s3_held_in
COMMENT 'rows that will be committed to it\'s.a`b, staged by ch-s3-0123-2-8'
SETTINGS allow_suspicious_low_cardinality_types = 1
