ALTER TABLE `it's`.`led\`ger_files`
DELETE WHERE target = 'it\'s.a`b' AND (load_id, attempt) IN (('ch-s3-0123', 7))
SETTINGS mutations_sync = 2
