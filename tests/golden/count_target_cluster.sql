SELECT concat(hostName(), ':', toString(tcpPort())) AS node, sum(rows) AS rows,
    max(has_lightweight_delete OR startsWith(partition_id, 'patch-')) AS has_deleted
FROM clusterAllReplicas('it\'s', system.parts)
WHERE database = 'it\'s' AND table = 'a`b' AND active
GROUP BY node
