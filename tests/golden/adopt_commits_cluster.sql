INSERT INTO `it's`.`led\`ger`
SELECT * REPLACE (['u3'] AS table_uuids)
FROM
(
    SELECT *
    FROM clusterAllReplicas('it\'s', 'it\'s', 'led`ger')
    WHERE target IN ('it\'s.a`b', 'd.earlier')
        AND event IN ('committed', 'undone')
        AND hasAny(table_uuids, ['u1', 'it\'s\n\'); DROP TABLE x; --\\'])
)
SETTINGS
    insert_quorum = 2,
    insert_quorum_parallel = 1,
    insert_deduplicate = 0,
    select_sequential_consistency = 1
