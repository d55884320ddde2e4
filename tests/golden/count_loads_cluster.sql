SELECT uniqExact(load_id) AS loads
FROM
(
    SELECT extract(initial_query_id, '^ch-s3-[0-9a-f]{20}') AS load_id
    FROM clusterAllReplicas('it\'s', system.processes)
    WHERE match(initial_query_id, '^ch-s3-[0-9a-f]{20}-[0-9]+-[0-9]+(-insert)?$')
    UNION ALL
    SELECT load_id
    FROM clusterAllReplicas('it\'s', 'ops', 'ledger')
    WHERE time > now64(6) - toIntervalSecond(60)
        AND event IN ('announced', 'committing', 'committed', 'abandoned')
    GROUP BY load_id
    HAVING argMax(event, time) = 'announced'
)
WHERE load_id != 'ch-s3-0123456789abcdef0123'
