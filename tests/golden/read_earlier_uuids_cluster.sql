SELECT table_uuids
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE target = 'it\'s.a`b' AND event = 'committed' AND notEmpty(table_uuids)
ORDER BY attempt DESC, epoch DESC
LIMIT 1
SETTINGS select_sequential_consistency = 1
