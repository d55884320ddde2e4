ALTER TABLE `it's`.`a\`b` ON CLUSTER `it's`
    ADD COLUMN IF NOT EXISTS `id` UInt64 CODEC(Delta, ZSTD),
    ADD COLUMN IF NOT EXISTS `tail\`num` LowCardinality(String),
    ADD COLUMN IF NOT EXISTS `dt` Date
