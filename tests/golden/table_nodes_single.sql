SELECT DISTINCT concat(hostName(), ':', toString(tcpPort())) AS node, database, name AS table
FROM system.tables
WHERE database IN ('it\'s')
    AND (database, `name`) IN (('it\'s', 'a`b'))
SETTINGS skip_unavailable_shards = 0
