SELECT DISTINCT path, etag, load_id, attempt
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger_files')
WHERE target = 'it\'s.a`b' AND path BETWEEN 'flights/a' AND 'flights/it\'s\n\'); DROP TABLE x; --\\'
SETTINGS select_sequential_consistency = 1
