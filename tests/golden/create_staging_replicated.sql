CREATE TABLE IF NOT EXISTS `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7` ON CLUSTER `it's` AS `it's`.`a\`b`
ENGINE = ReplicatedReplacingMergeTree(version) ORDER BY id SETTINGS index_granularity = 8192
COMMENT 'rows'
SETTINGS allow_suspicious_low_cardinality_types = 1
