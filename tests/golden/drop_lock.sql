DROP TABLE `it's`.`ch_s3_lock_52115f13b013_7` SYNC
