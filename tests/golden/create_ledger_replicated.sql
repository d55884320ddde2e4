CREATE TABLE IF NOT EXISTS `it's`.`led\`ger`
(
    target String,
    load_id String,
    generation UInt32,
    attempt UInt64,
    epoch UInt64,
    event LowCardinality(String),
    try_number UInt32,
    detail String CODEC(ZSTD),
    time DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplicatedMergeTree
ORDER BY (target, load_id, generation, attempt, epoch, event)
COMMENT 'airflow-provider-ch-s3: what its loads did, schema 2'
