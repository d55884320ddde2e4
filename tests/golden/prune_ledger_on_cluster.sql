ALTER TABLE `it's`.`led\`ger` ON CLUSTER `it's`
DELETE WHERE target = 'it\'s.a`b' AND epoch < 12
    AND event IN ('planned', 'committing') AND (load_id, attempt) IN (('ch-s3-0123', 7), ('ch-s3-4567', 9))
SETTINGS mutations_sync = 2
