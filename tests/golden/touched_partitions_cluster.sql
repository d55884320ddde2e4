SELECT DISTINCT _partition_id
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
WHERE ifNull((dt = '2013-01-01' OR origin IS NULL), 0) != 0
ORDER BY _partition_id
SETTINGS max_execution_time = 0
