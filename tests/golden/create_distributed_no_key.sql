CREATE TABLE IF NOT EXISTS `it's`.`a\`b` AS `it's`.`a\`b_local`
ENGINE = Distributed('it\'s', 'it\'s', 'a`b_local')
