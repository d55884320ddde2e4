SELECT DISTINCT initial_query_id AS query_id
FROM clusterAllReplicas('it\'s', system.processes)
WHERE initial_query_id IN ('ch-s3-0\'1-2-3', 'b')
SETTINGS skip_unavailable_shards = 0
