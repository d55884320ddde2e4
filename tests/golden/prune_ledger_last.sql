ALTER TABLE `it's`.`led\`ger`
DELETE WHERE target = 'it\'s.a`b' AND epoch < 12
    AND event != 'locked' AND attempt IN (7, 9)
SETTINGS mutations_sync = 2
