CREATE TABLE IF NOT EXISTS `it's`.`a\`b` ON CLUSTER `it's` (line_count UInt64) ENGINE = MergeTree ORDER BY tuple()
