SELECT hostName() AS node, event_time, type, query_duration_ms, read_rows, written_rows,
    formatReadableSize(memory_usage) AS peak_memory, exception, query_id, query
FROM clusterAllReplicas('it\'s', system.query_log)
WHERE event_date >= today() - 30 AND startsWith(initial_query_id, 'ch-s3-\'a-0-')
ORDER BY event_time DESC
LIMIT 100
