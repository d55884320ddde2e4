SELECT name, value, readonly, min, max, type, on_nodes.node_count = 3 AND on_nodes.values = [value] AS is_even
FROM system.settings
LEFT JOIN (
    SELECT name, count() AS node_count, groupUniqArray(value) AS values
    FROM (SELECT name, value FROM clusterAllReplicas('it\'s', system.settings))
    GROUP BY name
) AS on_nodes USING (name)
SETTINGS skip_unavailable_shards = 0, prefer_localhost_replica = 0
