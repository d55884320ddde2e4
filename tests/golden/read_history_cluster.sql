SELECT DISTINCT target, load_id, generation, attempt, epoch, event, try_number, detail, toFloat64(time) AS time_seconds
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
ORDER BY target, epoch, time
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
