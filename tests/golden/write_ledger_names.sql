INSERT INTO `it's`.`led\`ger` (`target`, `event`, `name`)
SETTINGS async_insert = 0, insert_quorum = 2, insert_quorum_parallel = 1
FORMAT JSONEachRow
{"target": "u1", "event": "named", "name": "it's\n'); DROP TABLE x; --\\"}
