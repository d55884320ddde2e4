SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    table,
    partition_id,
    name,
    rows,
    min_block_number AS first_block,
    max_block_number AS last_block,
    hash_of_all_files AS digest,
    active,
    level = 0 AND data_version = min_block_number AS fresh,
    data_version AS version,
    uptime() AS uptime_seconds
FROM clusterAllReplicas('it\'s', system.parts)
WHERE database IN ('it\'s')
    AND (database, `table`) IN (('it\'s', 'ch_s3_stage_52115f13b013_0123_2_7_7'), ('it\'s', 'a`b'))
    AND partition_id IN ('all', '20130101-it\'s')
ORDER BY node, table, partition_id, first_block
