SELECT target, max(epoch) AS last_epoch, argMax(first_open, epoch) AS first_open
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE event = 'locked'
GROUP BY target
ORDER BY target
SETTINGS select_sequential_consistency = 1
