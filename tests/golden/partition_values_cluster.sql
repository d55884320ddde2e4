SELECT DISTINCT partition AS value
FROM clusterAllReplicas('it\'s', system.parts)
WHERE database = 'it\'s' AND table = 'a`b'
    AND partition_id IN ('201301', '2013-1')
ORDER BY value
