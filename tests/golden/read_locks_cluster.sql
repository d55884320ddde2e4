SELECT DISTINCT name, comment
FROM clusterAllReplicas('it\'s', system.tables)
WHERE database IN ('it\'s', 'd') AND startsWith(name, 'ch_s3_lock_')
ORDER BY name
LIMIT 1000
