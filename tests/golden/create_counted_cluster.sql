CREATE TABLE IF NOT EXISTS `it's`.`a\`b` ON CLUSTER `it's`
(
    file String,
    line_count UInt64,
    opened_row UInt64 COMMENT 'the first line in which a text of several lines may begin; 0 for none',
    ended_row UInt64 COMMENT 'the last one in which it may end'
)
ENGINE = MergeTree ORDER BY tuple()
