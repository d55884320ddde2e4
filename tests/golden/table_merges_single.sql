SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    count() AS running_merges,
    if(min(progress) > 0, max(elapsed * (1 - progress) / progress), NULL) AS left_seconds
FROM system.merges
WHERE database IN ('it\'s')
    AND (database, `table`) IN (('it\'s', 'a`b'))
GROUP BY node, database, table
SETTINGS skip_unavailable_shards = 0
