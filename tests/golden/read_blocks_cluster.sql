SELECT concat(hostName(), ':', toString(tcpPort())) AS node, partition_id, sumIf(rows, active) AS rows, max(max_block_number) AS last_block
FROM clusterAllReplicas('it\'s', system.parts)
WHERE database = 'it\'s' AND table = 'a`b'
GROUP BY node, partition_id
ORDER BY node, partition_id
SETTINGS skip_unavailable_shards = 0
