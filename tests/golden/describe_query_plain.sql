DESCRIBE TABLE (
SELECT id, dt FROM flights ORDER BY id -- all of them
)
