SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    partition_id,
    countIf(event_type = 'NewPart' AND startsWith(query_id, 'ch-s3-0123456789abcdef0123-0-7-commit-')) > 0 AS is_logged
FROM clusterAllReplicas('it\'s', system.part_log)
WHERE toString(table_uuid) IN ('uuid-1', 'uuid-2')
    AND partition_id IN ('all', '20130101-it\'s')
    AND event_time >= toDateTime(1700000000)
    AND error = 0
GROUP BY node, partition_id
SETTINGS skip_unavailable_shards = 0
