SELECT DISTINCT toString(uuid) AS uuid
FROM clusterAllReplicas('it\'s', system.tables)
WHERE toString(uuid) IN ('u1', 'u2')
