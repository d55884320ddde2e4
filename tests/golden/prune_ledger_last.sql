ALTER TABLE `it's`.`led\`ger`
DELETE WHERE target = 'it\'s.a`b' AND epoch < 12
    AND event NOT IN ('locked', 'alive', 'undone') AND (load_id, attempt) IN (('ch-s3-0123', 7), ('ch-s3-4567', 9))
SETTINGS mutations_sync = 2
