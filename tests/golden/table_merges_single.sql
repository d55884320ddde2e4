SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    count() AS running_merges,
    if(min(progress) > 0, max(elapsed * (1 - progress) / progress), NULL) AS left_seconds
FROM system.merges
WHERE database = 'it\'s' AND table = 'a`b'
GROUP BY node
SETTINGS skip_unavailable_shards = 0
