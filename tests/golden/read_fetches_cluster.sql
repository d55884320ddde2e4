SELECT concat(hostName(), ':', toString(tcpPort())) AS node, sum(total_size_bytes_compressed - bytes_read_compressed) AS left_bytes
FROM clusterAllReplicas('it\'s', system.replicated_fetches)
WHERE database = 'it\'s' AND table = 'a`b'
GROUP BY node
