SELECT name
FROM system.formats
WHERE is_input
