SELECT name FROM system.named_collections ORDER BY name
