SELECT concat(hostName(), ':', toString(tcpPort())) AS node, uptime() AS uptime_seconds
FROM clusterAllReplicas('it\'s', system.one)
