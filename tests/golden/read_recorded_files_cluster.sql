SELECT DISTINCT path, etag, size_bytes, load_id, attempt
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger_files')
WHERE target IN ('it\'s.a`b', 'd.earlier')
ORDER BY path, etag, load_id, attempt
LIMIT 1000
SETTINGS select_sequential_consistency = 1
