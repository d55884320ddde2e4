ALTER TABLE `it's`.`led\`ger` ON CLUSTER `it's`
DELETE WHERE (
        target = 'it\'s.a`b'
            AND epoch < 12
            AND event IN ('locked', 'alive')
        OR target = 'announcements'
    )
    AND toFloat64(time) < 1700000000.5
SETTINGS mutations_sync = 2
