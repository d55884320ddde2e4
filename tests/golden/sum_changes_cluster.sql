SELECT
    sumIf(ch_s3_staged_rows, ch_s3_outcome != 'undecided') AS rows,
    countIf(ch_s3_outcome = 'undecided') AS undecided,
    countIf(ch_s3_outcome = 'inserted') AS inserted,
    countIf(ch_s3_outcome = 'updated') AS updated,
    countIf(ch_s3_outcome = 'deleted') AS deleted,
    countIf(ch_s3_outcome = 'unchanged') AS unchanged,
    rows - countIf(ch_s3_outcome NOT IN ('late', 'undecided')) AS late,
    countIf(ch_s3_held_rows > 1) AS doubled,
    countIf(ch_s3_source != '') AS added,
    sumIf(ch_s3_held_rows, ch_s3_drops) AS dropped,
    groupUniqArrayIf(toUInt32(ch_s3_place), ch_s3_source = 'staged') AS added_in,
    groupUniqArrayIf(ch_s3_held_in, ch_s3_drops) AS dropped_in
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8_changes')
SETTINGS max_execution_time = 0
