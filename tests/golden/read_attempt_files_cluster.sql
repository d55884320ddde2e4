SELECT DISTINCT path, etag, size_bytes
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger_files')
WHERE target = 'it\'s.a`b' AND attempt = 7
ORDER BY path
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
