INSERT INTO `it's`.`led\`ger` (`target`, `load_id`, `generation`, `attempt`, `epoch`, `event`, `try_number`, `detail`)
SETTINGS async_insert = 0, insert_quorum = 2, insert_quorum_parallel = 1
FORMAT JSONEachRow
{"target": "it's.a`b", "load_id": "ch-s3-0123", "generation": 2, "attempt": 7, "epoch": 7, "event": "planned", "try_number": 1, "detail": "{\"dag\": \"it's\\n{x:String}\"}"}
