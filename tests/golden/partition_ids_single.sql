SELECT DISTINCT partition AS value, partition_id AS id
FROM system.parts
WHERE database = 'it\'s' AND table = 'a`b' AND active
    AND partition IN ('2024-01-31', '(\'a\',1)')
ORDER BY value, id
