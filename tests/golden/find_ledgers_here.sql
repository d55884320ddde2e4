SELECT database, name, comment
FROM system.tables
WHERE startsWith(comment, 'airflow-provider-ch-s3: what its loads did, schema 3') AND NOT endsWith(name, '_files')
ORDER BY database, name
LIMIT 1000
