SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    toUInt64(maxIf(value, metric = 'OSMemoryAvailable')) AS free_bytes,
    toUInt64(maxIf(value, metric = 'OSMemoryTotal')) AS total_bytes
FROM clusterAllReplicas('it\'s', system.asynchronous_metrics)
GROUP BY node
HAVING total_bytes > 0
ORDER BY node
