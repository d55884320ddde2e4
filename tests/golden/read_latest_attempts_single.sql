SELECT target, load_id, attempt
FROM `it's`.`led\`ger`
WHERE event = 'planned' AND detail NOT IN ('', '{}')
ORDER BY time DESC
LIMIT 1 BY target, load_id, attempt
LIMIT 50
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
