CHECK GRANT
    SELECT, ALTER DELETE ON `it's`.`a\`b`,
    INSERT ON `ops`.`ledger`
