SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    any(concat(command, ': ', latest_fail_reason)) AS failure
FROM system.mutations
WHERE database IN ('it\'s')
    AND (database, `table`) IN (('it\'s', 'a`b'))
    AND NOT is_done AND latest_fail_reason != ''
GROUP BY node, database, table
SETTINGS skip_unavailable_shards = 0
