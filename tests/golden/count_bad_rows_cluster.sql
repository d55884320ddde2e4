SELECT concat(hostName(), ':', toString(tcpPort())) AS node, file, if(column = '', reason, concat(column, ': ', reason)) AS why, count() AS row_count
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
GROUP BY node, file, why
ORDER BY row_count DESC, file, why
SETTINGS max_execution_time = 0
