SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    partition_id,
    count() AS active_parts,
    sum(rows) AS part_rows,
    max(toFloat64(toUnixTimestamp(modification_time))) AS newest_seconds,
    toFloat64(now64(3)) AS now_seconds
FROM system.parts
WHERE database IN ('it\'s')
    AND (database, `table`) IN (('it\'s', 'a`b'))
    AND ((database = 'it\'s' AND table = 'a`b' AND partition_id IN ('201301', '2013-1')))
    AND active
GROUP BY node, database, table, partition_id
SETTINGS skip_unavailable_shards = 0
