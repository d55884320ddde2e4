SELECT detail
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE target = 'it\'s.a`b'
    AND attempt >= 5
    AND event = 'committed'
    AND volume_bytes >= 1048576
    AND detail NOT IN ('', '{}')
ORDER BY attempt DESC
LIMIT 1 BY data_format
