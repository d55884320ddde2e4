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
GROUP BY target, load_id, attempt
HAVING countIf(event = 'planned') > 0
ORDER BY planned_at DESC, load_id DESC, attempt DESC
LIMIT 50
SETTINGS select_sequential_consistency = 1
