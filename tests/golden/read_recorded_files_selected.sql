SELECT DISTINCT path, etag, size_bytes, load_id, attempt
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger_files')
WHERE target = 'it\'s.a`b'
    AND (load_id, attempt) IN (('ch-s3-0123', 7), ('it\'s\n\'); DROP TABLE x; --\\', 9))
    AND startsWith(path, 'flights/it\'s\n\'); DROP TABLE x; --\\')
    AND path >= 'flights/b'
    AND (path, etag, load_id, attempt) > ('flights/b', 'it\'s\n\'); DROP TABLE x; --\\', 'ch-s3-0123', 7)
ORDER BY path, etag, load_id, attempt
LIMIT 1000
SETTINGS select_sequential_consistency = 1
