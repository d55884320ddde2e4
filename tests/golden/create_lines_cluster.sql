CREATE TABLE IF NOT EXISTS `it's`.`lines\`` ON CLUSTER `it's`
(
    file String,
    row UInt64,
    line String
)
ENGINE = Null
