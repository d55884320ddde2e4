SELECT node, name, change
FROM (
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, mutation_id AS name, command AS change
    FROM clusterAllReplicas('it\'s', system.mutations)
    WHERE database = 'it\'s' AND table = 'a`b' AND NOT is_done
    UNION ALL
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, argMaxIf(name, data_version, startsWith(name, 'patch-')), 'UPDATE'
    FROM clusterAllReplicas('it\'s', system.parts)
    WHERE database = 'it\'s' AND table = 'a`b' AND active
    GROUP BY node, replaceRegexpOne(partition_id, '^patch-[0-9a-f]{32}-', '')
    HAVING countIf(NOT startsWith(name, 'patch-')) > 0
        AND maxIf(data_version, startsWith(name, 'patch-')) > minIf(data_version, NOT startsWith(name, 'patch-'))
)
ORDER BY node, name
