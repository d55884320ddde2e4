SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    toFloat64(event_time_microseconds) AS at_seconds,
    1 - toInt64(length(merged_from)) AS change
FROM clusterAllReplicas('it\'s', system.part_log)
WHERE toString(table_uuid) IN ('a-1', 'b-2')
    AND event_type IN ('NewPart', 'MergeParts')
    AND error = 0
ORDER BY at_seconds
