SELECT max(epoch) AS epoch
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE target = 'it\'s.a`b' AND event = 'committed'
SETTINGS select_sequential_consistency = 1
