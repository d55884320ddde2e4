SELECT concat(hostName(), ':', toString(tcpPort())) AS node, table, name
FROM system.detached_parts
WHERE database = 'it\'s'
    AND table IN ('ch_s3_stage_52115f13b013_0123_2_7_7', 'a`b')
    AND partition_id = '20130101-it\'s'
    AND startsWith(reason, 'broken')
ORDER BY node, table, name
SETTINGS skip_unavailable_shards = 0
