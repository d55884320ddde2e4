ALTER TABLE `it's`.`led\`ger`
DELETE WHERE target = 'it\'s.a`b' AND epoch < 12
    AND ((event = 'locked' AND toFloat64(time) < 1700000000.5)
        OR (event IN ('planned', 'committing') AND attempt IN (7, 9)))
SETTINGS mutations_sync = 2
