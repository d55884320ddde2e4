SELECT name, value, readonly, min, max, type, 1 AS is_even
FROM system.settings
