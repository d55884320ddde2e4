CREATE TABLE IF NOT EXISTS `it's`.`a\`b` ON CLUSTER `it's` AS `it's`.`a\`b_local`
ENGINE = Distributed('it\'s', 'it\'s', 'a`b_local', cityHash64(id))
