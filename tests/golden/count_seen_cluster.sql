SELECT _partition_id AS partition_id, count() AS rows
FROM cluster('it\'s', 'it\'s', 'a`b')
WHERE _partition_id IN ('a', '20130101-it\'s')
GROUP BY partition_id
SETTINGS apply_deleted_mask = 1, max_execution_time = 0
