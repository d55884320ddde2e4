SELECT uniqExact(load_id) AS loads
FROM
(
    SELECT extract(initial_query_id, '^ch-s3-[0-9a-f]{20}') AS load_id
    FROM system.processes
    WHERE match(initial_query_id, '^ch-s3-[0-9a-f]{20}-[0-9]+-[0-9]+(-insert)?$')
)
WHERE load_id != 'ch-s3-0123456789abcdef0123'
