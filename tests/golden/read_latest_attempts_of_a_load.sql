SELECT target, load_id, attempt
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE event = 'planned' AND detail NOT IN ('', '{}')
    AND load_id = 'ch-s3-0123'
ORDER BY time DESC
LIMIT 1 BY target, load_id, attempt
LIMIT 50
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
