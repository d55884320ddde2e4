SELECT
    `ch_s3_key_1` AS `id`,
    `ch_s3_key_2` AS `tail\`num`,
    ch_s3_held_rows AS ch_s3_rows
FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8_changes`
WHERE ch_s3_held_rows > 1
LIMIT 5
