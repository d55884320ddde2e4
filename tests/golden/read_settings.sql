SELECT name, value, readonly, min, max, type
FROM system.settings
