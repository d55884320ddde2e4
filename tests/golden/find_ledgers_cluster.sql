SELECT database, name, groupUniqArray(engine) AS engines, groupUniqArray(comment) AS comments
FROM clusterAllReplicas('it\'s', system.tables)
WHERE startsWith(comment, 'airflow-provider-ch-s3: what its loads did, schema 1')
GROUP BY database, name
ORDER BY database, name
LIMIT 1000
