SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    database,
    table,
    queue_size AS queued_changes,
    is_readonly,
    if(is_readonly, dateDiff('second', coalesce(COLUMNS('^readonly_start_time$'), NULL), now()), NULL) AS read_only_seconds
FROM system.replicas
WHERE database IN ('it\'s')
    AND (database, `table`) IN (('it\'s', 'a`b'))
SETTINGS skip_unavailable_shards = 0
