DESCRIBE TABLE (
SELECT id, dt FROM flights ORDER BY id -- all of them
)
SETTINGS
    max_threads = 1
