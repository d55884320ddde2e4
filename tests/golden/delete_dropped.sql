ALTER TABLE `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8_merged`
    DELETE IN PARTITION ID 'it\'s'
        WHERE ifNull(((`id`, `tail\`num`) IN (SELECT `ch_s3_key_1`, `ch_s3_key_2` FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8_changes` WHERE ch_s3_drops AND ch_s3_held_in IN (0, 660289018))), 0) != 0,
    DELETE IN PARTITION ID '202402'
        WHERE ifNull(((`id`, `tail\`num`) IN (SELECT `ch_s3_key_1`, `ch_s3_key_2` FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8_changes` WHERE ch_s3_drops AND ch_s3_held_in IN (0, 931177878))), 0) != 0
SETTINGS mutations_sync = 0, allow_nondeterministic_mutations = 1
