SELECT partition_id, sum(rows) AS rows, sum(bytes_on_disk) AS bytes
FROM cluster('it\'s', 'system', 'parts')
WHERE database = 'it\'s' AND table = 'a`b' AND active
GROUP BY partition_id
ORDER BY partition_id
