CREATE TABLE IF NOT EXISTS `it's`.`led\`ger` ON CLUSTER `it's`
(
    target String COMMENT 'of a name, the UUID of a table that had it',
    load_id String,
    generation UInt32,
    attempt UInt64 COMMENT 'for the events of a lock, its epoch',
    epoch UInt64,
    event LowCardinality(String),
    try_number UInt32,
    first_open UInt64 COMMENT 'of a lock: no attempt before this one is open',
    table_uuids Array(String),
    name String COMMENT 'database.table, of a name',
    load_mode LowCardinality(String),
    partitions Map(String, UInt64),
    data_format LowCardinality(String),
    volume_bytes UInt64,
    detail String CODEC(ZSTD),
    time DateTime64(6, 'UTC') DEFAULT now64(6),
    INDEX load_id load_id TYPE bloom_filter GRANULARITY 1,
    INDEX load_mode load_mode TYPE set(8) GRANULARITY 1,
    INDEX partitions mapKeys(partitions) TYPE bloom_filter GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (target, attempt, epoch, event)
SETTINGS index_granularity = 1024
COMMENT 'airflow-provider-ch-s3: what its loads did, schema 1'
