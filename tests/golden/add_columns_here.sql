ALTER TABLE `it's`.`a\`b`
    ADD COLUMN IF NOT EXISTS `tail\`num` LowCardinality(String)
