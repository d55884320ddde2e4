SELECT node, name, change
FROM (
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, mutation_id AS name, command AS change
    FROM system.mutations
    WHERE database = 'it\'s' AND table = 'a`b' AND NOT is_done
    UNION ALL
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, name, 'UPDATE' AS change
    FROM system.parts
    WHERE database = 'it\'s' AND table = 'a`b' AND active
        AND startsWith(partition_id, 'patch-')
)
ORDER BY node, name
SETTINGS skip_unavailable_shards = 0
