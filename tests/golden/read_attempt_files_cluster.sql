SELECT DISTINCT path, etag, size_bytes
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger_files')
WHERE target = 'it\'s.a`b'
    AND (load_id, attempt) IN (('ch-s3-0123', 7))
    AND path > 'flights/it\'s\n\'); DROP TABLE x; --\\'
ORDER BY path
LIMIT 100
SETTINGS select_sequential_consistency = 1
