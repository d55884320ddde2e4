SELECT max(epoch) AS epoch
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE target = 'it\'s.a`b' AND event = 'committed'
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
