CREATE TABLE IF NOT EXISTS `it's`.`led\`ger_files` ON CLUSTER `it's`
(
    target String,
    path String,
    etag String,
    size_bytes UInt64,
    load_id String,
    attempt UInt64,
    INDEX attempt attempt TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (target, path, etag, load_id, attempt)
COMMENT 'airflow-provider-ch-s3: what its loads did, schema 1'
