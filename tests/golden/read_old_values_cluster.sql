SELECT
    toString((count())) AS `ch_s3_value_1`,
    toTypeName((count())) AS `ch_s3_type_1`,
    toString((max(`tail\`num`))) AS `ch_s3_value_2`,
    toTypeName((max(`tail\`num`))) AS `ch_s3_type_2`
FROM cluster('it\'s', 'it\'s', 'a`b')
WHERE _partition_id IN ('20130101', 'it\'s')
SETTINGS max_execution_time = 0
