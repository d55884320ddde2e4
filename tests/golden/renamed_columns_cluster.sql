SELECT concat(hostName(), ':', toString(tcpPort())) AS node, command AS change
FROM clusterAllReplicas('it\'s', system.mutations)
WHERE database = 'it\'s' AND table = 'a`b'
    AND toUnixTimestamp(create_time) >= 1700000000 AND command LIKE '%RENAME COLUMN%'
ORDER BY node, change
