SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    zookeeper_path AS path,
    total_replicas AS replicas,
    toBool(is_readonly OR is_session_expired) AS readonly,
    if(log_max_index = 0, 0, log_max_index + 1) AS log_end,
    log_pointer AS log_taken,
    zookeeper_exception AS failure
FROM clusterAllReplicas('it\'s', system.replicas)
WHERE database = 'it\'s' AND table = 'a`b'
ORDER BY node
