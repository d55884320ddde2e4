SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    any(concat(command, ': ', latest_fail_reason)) AS failure
FROM system.mutations
WHERE database = 'it\'s' AND table = 'a`b'
    AND NOT is_done AND latest_fail_reason != ''
GROUP BY node
SETTINGS skip_unavailable_shards = 0
