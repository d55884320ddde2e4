SELECT uniqExact(initial_query_id) AS loads
FROM system.processes
WHERE match(initial_query_id, '^ch-s3-[0-9a-f]{20}-[0-9]+-[0-9]+(-insert)?$')
    AND NOT startsWith(initial_query_id, 'ch-s3-0123456789abcdef0123-')
SETTINGS skip_unavailable_shards = 0
