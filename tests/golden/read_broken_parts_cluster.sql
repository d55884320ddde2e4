SELECT concat(hostName(), ':', toString(tcpPort())) AS node, table, name
FROM clusterAllReplicas('it\'s', system.detached_parts)
WHERE database = 'it\'s'
    AND table IN ('ch_s3_stage_52115f13b013_0123_2_7_7', 'a`b')
    AND partition_id = '20130101-it\'s'
    AND startsWith(reason, 'broken')
ORDER BY node, table, name
