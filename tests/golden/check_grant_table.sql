CHECK GRANT INSERT ON `it's`.`a\`b`
