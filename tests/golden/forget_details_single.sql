ALTER TABLE `it's`.`led\`ger`
UPDATE detail = '{}' WHERE target = 'it\'s.a`b'
    AND attempt < 12
    AND detail != '{}'
    AND toFloat64(time) < 1700000000.5
SETTINGS mutations_sync = 2
