SELECT DISTINCT initial_query_id AS query_id
FROM system.processes
WHERE initial_query_id IN ('b')
SETTINGS skip_unavailable_shards = 0
