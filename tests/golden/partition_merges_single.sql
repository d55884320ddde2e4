SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    partition_id,
    count() AS running_merges,
    if(min(progress) > 0, max(elapsed * (1 - progress) / progress), NULL) AS left_seconds
FROM system.merges
WHERE database IN ('it\'s')
    AND (database, `table`) IN (('it\'s', 'a`b'))
    AND ((database = 'it\'s' AND table = 'a`b' AND partition_id IN ('201301', '2013-1')))
GROUP BY node, database, table, partition_id
SETTINGS skip_unavailable_shards = 0
