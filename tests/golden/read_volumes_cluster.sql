SELECT
    volumes.node AS node,
    policy_name AS policy,
    volume_name AS name,
    min(volume_priority) = 1 AS is_first,
    max(is_remote) AS is_remote,
    sum(unreserved_space) AS free_bytes,
    sum(total_space) AS total_bytes
FROM
(
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, policy_name, volume_name, volume_priority, arrayJoin(disks) AS disk
    FROM clusterAllReplicas('it\'s', system.storage_policies)
    WHERE policy_name IN ('default', 'it\'s')
) AS volumes
INNER JOIN
(
    SELECT concat(hostName(), ':', toString(tcpPort())) AS node, name AS disk, is_remote, unreserved_space, total_space
    FROM clusterAllReplicas('it\'s', system.disks)
) AS disks ON disks.node = volumes.node AND disks.disk = volumes.disk
GROUP BY node, policy, name
ORDER BY node, policy, is_first DESC, name
