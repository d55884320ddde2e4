ALTER TABLE `it's`.`led\`ger_files` ON CLUSTER `it's`
DELETE WHERE target = 'it\'s.a`b' AND attempt IN (7, 9)
SETTINGS mutations_sync = 2
