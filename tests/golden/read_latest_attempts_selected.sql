SELECT
    target,
    load_id,
    attempt,
    toFloat64(minIf(time, event = 'planned')) AS planned_at,
    multiIf(
        countIf(event = 'undone') > 0, 'undone',
        countIf(event = 'committed') > 0, 'committed',
        countIf(event != 'planned') = 0, 'planned',
        argMaxIf(toString(event), (epoch, event = 'abandoned'), event != 'planned')
    ) AS state
FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
WHERE event IN ('planned', 'committing', 'committed', 'abandoned', 'undone')
    AND target = 'it\'s.a`b'
    AND load_id = 'it\'s\n\'); DROP TABLE x; --\\'
    AND toFloat64(time) >= toFloat64(now64(6)) - 7.5 * 86400
GROUP BY target, load_id, attempt
HAVING countIf(event = 'planned') > 0
    AND countIf(event = 'planned' AND (JSONExtractString(detail, 'table') = 'it\'s\n\'); DROP TABLE x; --\\'
        OR concat(extract(target, '^(?:`[^`]+`|[^.]+)[.]'), JSONExtractString(detail, 'table')) = 'it\'s\n\'); DROP TABLE x; --\\')) > 0
    AND countIf(event = 'planned' AND JSONExtractString(detail, 'dag') = 'it\'s\n\'); DROP TABLE x; --\\') > 0
    AND state IN ('planned', 'it\'s\n\'); DROP TABLE x; --\\')
    AND (planned_at, load_id, attempt) < (1700000000.25, 'it\'s\n\'); DROP TABLE x; --\\', 7)
ORDER BY planned_at DESC, load_id DESC, attempt DESC
LIMIT 50
SETTINGS select_sequential_consistency = 1
