WITH (
    toString(table_uuid) IN ('uuid-1', 'uuid-2')
    AND partition_id IN ('all', '20130101-it\'s')
    AND event_time >= toDateTime(1699999940)
    AND error = 0
) AS is_ours,
startsWith(query_id, 'ch-s3-0123456789abcdef0123-0-7-commit-') AS is_sent,
query_id IN (
    SELECT query_id
    FROM system.query_log
    WHERE event_time >= toDateTime(1699913600)
        AND query_kind = 'Alter'
        AND position(query, 'ch_s3_stage_0123456789ab_0123456789abcdef0123_0_7') > 0
) AS is_named
SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    max(event_time < toDateTime(1700000000)) AS reaches_back,
    max(is_named) AS has_named,
    groupUniqArrayIf(partition_id, is_ours) AS seen,
    groupUniqArrayIf(partition_id, is_ours AND event_type = 'NewPart' AND (is_sent OR is_named)) AS added
FROM clusterAllReplicas('it\'s', system.part_log)
WHERE event_time >= toDateTime(1699913600)
GROUP BY node
