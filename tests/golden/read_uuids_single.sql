SELECT DISTINCT toString(uuid) AS uuid
FROM system.tables
WHERE toString(uuid) IN ('u1')
SETTINGS skip_unavailable_shards = 0
