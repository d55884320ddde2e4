SELECT
    node,
    database,
    table,
    '' AS partition_id,
    sum(parts) AS active_parts,
    max(parts) AS max_partition_parts,
    sum(part_rows) AS rows,
    max(newest) AS newest_seconds,
    toFloat64(now64(3)) AS now_seconds
FROM
(
    SELECT
        concat(hostName(), ':', toString(tcpPort())) AS node,
        database,
        table,
        partition_id AS partition,
        count() AS parts,
        sum(rows) AS part_rows,
        max(toFloat64(toUnixTimestamp(modification_time))) AS newest
    FROM clusterAllReplicas('it\'s', system.parts)
    WHERE database IN ('it\'s', 'e')
    AND (database, `table`) IN (('it\'s', 'a`b'), ('it\'s', 'c'), ('e', 'c'))
    AND active
    GROUP BY node, database, table, partition
)
GROUP BY node, database, table, partition_id
