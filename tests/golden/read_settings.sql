SELECT name, value, readonly
FROM system.settings
