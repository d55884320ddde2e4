SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    toUnixTimestamp(event_time) AS at_seconds,
    sum(1 - toInt64(length(merged_from))) AS change,
    countIf(event_type = 'MergeParts') AS merges
FROM system.part_log
WHERE event_date >= toDate(toDateTime(1)) - 1
    AND event_time >= toDateTime(1)
    AND database = 'it\'s'
    AND table = 'a`b'
    AND event_type IN ('NewPart', 'MergeParts', 'MutatePart', 'DownloadPart')
    AND error = 0
GROUP BY node, at_seconds
ORDER BY at_seconds DESC
LIMIT 100 BY node
