SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    node_name AS entry,
    last_exception AS failure
FROM clusterAllReplicas('it\'s', system.replication_queue)
WHERE database = 'it\'s' AND table = 'a`b'
    AND type NOT IN ('MERGE_PARTS', 'MUTATE_PART')
ORDER BY node, entry
