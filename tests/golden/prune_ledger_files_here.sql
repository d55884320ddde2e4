ALTER TABLE `it's`.`led\`ger_files`
DELETE WHERE target = 'it\'s.a`b' AND attempt IN (7)
SETTINGS mutations_sync = 2
