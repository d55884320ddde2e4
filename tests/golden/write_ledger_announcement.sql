INSERT INTO `it's`.`led\`ger` (`target`, `load_id`, `event`)
SETTINGS async_insert = 0, insert_quorum = 0, insert_quorum_parallel = 1
FORMAT JSONEachRow
{"target": "announcements", "load_id": "ch-s3-0123456789abcdef0123", "event": "announced"}
