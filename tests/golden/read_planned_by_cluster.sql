SELECT DISTINCT load_id, generation, attempt
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE target IN ('it\'s.a`b', 'd.earlier')
    AND event = 'planned'
    AND (load_id, attempt) IN (('ch-s3-0123', 7), ('it\'s\n\'); DROP TABLE x; --\\', 9))
    AND JSONExtractString(detail, 'dag') = 'd'
    AND JSONExtractString(detail, 'task') = 'it\'s\n\'); DROP TABLE x; --\\'
SETTINGS select_sequential_consistency = 1
