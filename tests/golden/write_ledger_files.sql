INSERT INTO `it's`.`led\`ger_files` (`target`, `path`, `etag`, `size_bytes`, `attempt`)
SETTINGS async_insert = 0, insert_quorum = 0, insert_quorum_parallel = 1
FORMAT JSONEachRow
{"target": "it's.a`b", "path": "flights/it's 1.csv", "etag": "\"e1\"", "size_bytes": 9, "attempt": 7}
{"target": "it's.a`b", "path": "flights/it's\n'); DROP TABLE x; --\\", "etag": "e2", "size_bytes": 0, "attempt": 7}
