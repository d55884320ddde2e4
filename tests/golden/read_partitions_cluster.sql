SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    partition_id,
    sum(rows) AS rows,
    max(max_block_number) AS last_block,
    maxIf(data_version, data_version != min_block_number) AS version,
    max(has_lightweight_delete) AS has_deleted,
    sum(cityHash64(name)) AS names,
    groupArray((min_block_number, max_block_number)) AS ranges
FROM clusterAllReplicas('it\'s', system.parts)
WHERE database = 'it\'s' AND table = 'a`b' AND active
GROUP BY node, partition_id
HAVING rows > 0
ORDER BY partition_id, node
