SELECT DISTINCT file, row, column, value, line, reason
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
ORDER BY file, row
LIMIT 10
SETTINGS max_execution_time = 0
