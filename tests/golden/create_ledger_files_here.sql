CREATE TABLE IF NOT EXISTS `it's`.`led\`ger_files`
(
    target String,
    path String,
    etag String,
    size_bytes UInt64,
    attempt UInt64
)
ENGINE = MergeTree
ORDER BY (target, path, etag, attempt)
COMMENT 'airflow-provider-ch-s3: what its loads did, schema 1'
