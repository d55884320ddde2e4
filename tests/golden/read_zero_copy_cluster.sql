SELECT node
FROM
(
    SELECT
        concat(hostName(), ':', toString(tcpPort())) AS node,
        extract(create_table_query, 'allow_remote_fs_zero_copy_replication = (\\w+)') AS own
    FROM clusterAllReplicas('it\'s', system.tables)
    WHERE database = 'it\'s' AND name = 'a`b'
        AND engine LIKE 'Replicated%'
) AS tables
INNER JOIN
(
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, value AS default
    FROM clusterAllReplicas('it\'s', system.replicated_merge_tree_settings)
    WHERE name = 'allow_remote_fs_zero_copy_replication'
) AS servers USING (node)
WHERE if(own != '', own, default) IN ('1', 'true')
ORDER BY node
