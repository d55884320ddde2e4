SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    extract(create_table_query, 'allow_remote_fs_zero_copy_replication = (\\w+)') AS own,
    (
        SELECT value
        FROM system.replicated_merge_tree_settings
        WHERE name = 'allow_remote_fs_zero_copy_replication'
    ) AS of_server
FROM system.tables
WHERE database = 'it\'s' AND name = 'a`b'
    AND if(own != '', own, of_server) IN ('1', 'true')
ORDER BY node
SETTINGS skip_unavailable_shards = 0
