SELECT concat(hostName(), ':', toString(tcpPort())) AS node, toUInt32(max(nowInBlock())) AS seconds
FROM clusterAllReplicas('it\'s', system.one)
GROUP BY node
ORDER BY node
