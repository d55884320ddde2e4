SELECT concat(hostName(), ':', toString(tcpPort())) AS node, sum(unreserved_space) AS free_bytes
FROM clusterAllReplicas('it\'s', system.disks)
GROUP BY node
ORDER BY node
SETTINGS skip_unavailable_shards = 0
