SELECT
    sum(ch_s3_staged_rows) AS rows,
    countIf(ch_s3_outcome = 'inserted') AS inserted,
    countIf(ch_s3_outcome = 'updated') AS updated,
    countIf(ch_s3_outcome = 'deleted') AS deleted,
    countIf(ch_s3_outcome = 'unchanged') AS unchanged,
    sum(ch_s3_staged_rows) - countIf(ch_s3_outcome != 'late') AS late,
    countIf(ch_s3_held_rows > 1) AS doubled,
    countIf(ch_s3_source != '') AS added,
    sumIf(ch_s3_held_rows, ch_s3_drops) AS dropped
FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_8_8_changes`
SETTINGS max_execution_time = 0
