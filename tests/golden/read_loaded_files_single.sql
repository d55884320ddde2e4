SELECT DISTINCT path, etag
FROM `it's`.`led\`ger_files`
WHERE target = 'it\'s.a`b'
    AND path BETWEEN 'flights/a' AND 'flights/z'
    AND (load_id, attempt) IN (('ch-s3-0123', 7))
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
