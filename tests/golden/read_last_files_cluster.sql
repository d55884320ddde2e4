SELECT path
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger_files')
WHERE target = 'it\'s.a`b'
    AND startsWith(path, 'flights/it\'s\n\'); DROP TABLE x; --\\')
    AND path < 'flights/z'
ORDER BY target DESC, path DESC
LIMIT 9
SETTINGS select_sequential_consistency = 1
