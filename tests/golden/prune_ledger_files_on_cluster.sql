ALTER TABLE `it's`.`led\`ger_files` ON CLUSTER `it's`
DELETE WHERE target = 'it\'s.a`b' AND (load_id, attempt) IN (('ch-s3-0123', 7), ('ch-s3-4567', 9))
SETTINGS mutations_sync = 2
