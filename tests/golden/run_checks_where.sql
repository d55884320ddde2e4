SELECT
    count() AS ch_s3_rows,
    (countIf(id < 3) = 0) AS `ch_s3_result_1`,
    toString((countIf(id < 3))) AS `ch_s3_side_1_1`,
    toString((0)) AS `ch_s3_side_1_2`
FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`
WHERE (NOT (id = 3))
SETTINGS max_execution_time = 0
