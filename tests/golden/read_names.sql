SELECT name FROM system.tables WHERE database = 'it\'s' ORDER BY name
