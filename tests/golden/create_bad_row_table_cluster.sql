CREATE TABLE IF NOT EXISTS `it's`.`a\`b` ON CLUSTER `it's`
(
    load_id String,
    query_id String,
    file String,
    row UInt64 COMMENT 'of the file, from 1',
    column LowCardinality(String) COMMENT 'the first one whose value does not fit',
    value String,
    line String,
    reason String,
    time DateTime DEFAULT now()
)
ENGINE = ReplicatedMergeTree
ORDER BY (file, row)
