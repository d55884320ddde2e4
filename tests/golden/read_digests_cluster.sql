SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    partition_id,
    groupArray(substring(hash_of_all_files, 1, 8)) AS digests
FROM clusterAllReplicas('it\'s', system.parts)
WHERE database = 'it\'s' AND table = 'a`b' AND active
    AND partition_id IN ('a', '20130101-it\'s')
GROUP BY node, partition_id
ORDER BY node, partition_id
