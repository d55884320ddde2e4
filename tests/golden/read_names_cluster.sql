SELECT DISTINCT name
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE target IN ('u1', 'u2') AND event = 'named'
ORDER BY name
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
