SELECT DISTINCT name
FROM system.disks
WHERE is_remote
    AND name IN (
        SELECT arrayJoin(disks)
        FROM system.storage_policies
        WHERE policy_name = 'it\'s' AND volume_priority = 1
    )
SETTINGS skip_unavailable_shards = 0
