SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    any(concat(command, ': ', latest_fail_reason)) AS failure
FROM clusterAllReplicas('it\'s', system.mutations)
WHERE database IN ('it\'s', 'e')
    AND (database, `table`) IN (('it\'s', 'a`b'), ('it\'s', 'c'), ('e', 'c'))
    AND NOT is_done AND latest_fail_reason != ''
GROUP BY node, database, table
