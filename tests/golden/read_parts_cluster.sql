SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    partition_id,
    name,
    rows,
    min_block_number AS first_block,
    max_block_number AS last_block,
    hash_of_all_files AS digest,
    active,
    level = 0 AND data_version = min_block_number AS fresh
FROM clusterAllReplicas('it\'s', system.parts)
WHERE database = 'it\'s' AND table = 'a`b'
    AND partition_id IN ('all', '20130101-it\'s')
ORDER BY node, partition_id, first_block
SETTINGS skip_unavailable_shards = 0
