SELECT name, value, readonly, min, max
FROM system.settings
