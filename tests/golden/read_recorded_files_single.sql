SELECT DISTINCT path, etag, size_bytes, load_id, attempt
FROM `it's`.`led\`ger_files`
WHERE target = 'it\'s.a`b'
ORDER BY path, etag, load_id, attempt
LIMIT 1000
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
