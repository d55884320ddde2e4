CREATE TABLE `it's`.`a\`b`
(
    `id` UInt64
)
ENGINE = Null
