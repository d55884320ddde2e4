SELECT
    substring(path, 1, length(path) - position(reverse(path), '/') + 1) AS folder,
    toUInt32(uniqExact(path)) AS files
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger_files')
WHERE target = 'it\'s.a`b'
    AND (load_id, attempt) IN (('ch-s3-0123', 7), ('ch-s3-4567', 9))
GROUP BY folder
ORDER BY files DESC, folder
LIMIT 100
SETTINGS select_sequential_consistency = 1
