SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    table,
    partition_id,
    sumIf(rows, active) AS rows,
    max(max_block_number) AS last_block,
    maxIf(data_version, active) AS version
FROM clusterAllReplicas('it\'s', system.parts)
WHERE database IN ('it\'s')
    AND (database, `table`) IN (('it\'s', 'ch_s3_stage_52115f13b013_0123_2_7_7'), ('it\'s', 'a`b'))
GROUP BY node, table, partition_id
ORDER BY node, table, partition_id
