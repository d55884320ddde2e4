SELECT
    node,
    sum(parts) AS active_parts,
    max(parts) AS max_partition_parts,
    sum(part_rows) AS rows,
    max(newest) AS newest_seconds,
    toFloat64(now64(3)) AS now_seconds
FROM
(
    SELECT
        concat(hostName(), ':', toString(tcpPort())) AS node,
        partition_id,
        count() AS parts,
        sum(rows) AS part_rows,
        max(toFloat64(toUnixTimestamp(modification_time))) AS newest
    FROM system.parts
    WHERE database = 'it\'s' AND table = 'a`b' AND active
    GROUP BY node, partition_id
)
GROUP BY node
SETTINGS skip_unavailable_shards = 0
