CREATE TABLE `it's`.`ch_s3_lock_52115f13b013_7` (nothing UInt8)
ENGINE = Memory
COMMENT 'it\'s\n\'); DROP TABLE x; --\\'
