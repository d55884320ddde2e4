SELECT table_uuids
FROM `it's`.`led\`ger`
WHERE target = 'it\'s.a`b' AND event = 'committed' AND notEmpty(table_uuids)
ORDER BY attempt DESC, epoch DESC
LIMIT 1
SETTINGS skip_unavailable_shards = 0, select_sequential_consistency = 1
