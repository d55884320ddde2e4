SELECT
    toString((sum(id))) AS `ch_s3_value_1`,
    toTypeName((sum(id))) AS `ch_s3_type_1`
FROM `it's`.`a\`b`
WHERE (id > 3)
SETTINGS max_execution_time = 0
