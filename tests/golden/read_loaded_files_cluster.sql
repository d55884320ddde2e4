SELECT DISTINCT path, etag
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger_files')
WHERE target = 'it\'s.a`b'
    AND path BETWEEN 'flights/a' AND 'flights/it\'s\n\'); DROP TABLE x; --\\'
    AND (load_id, attempt) IN (('ch-s3-0123', 7), ('ch-s3-0123', 9))
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
