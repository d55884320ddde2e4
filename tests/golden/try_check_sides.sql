SELECT
    (countIf(id < 3) = 0) AS ch_s3_result,
    toTypeName((countIf(id < 3) = 0)) AS ch_s3_type,
    toString((countIf(id < 3))) AS `ch_s3_side_1`,
    toString((0)) AS `ch_s3_side_2`
FROM (SELECT `id`, `tail\`num` FROM `it's`.`a\`b` LIMIT 0)
SETTINGS use_query_cache = 1, query_cache_nondeterministic_function_handling = 'throw',
    query_cache_system_table_handling = 'throw', enable_reads_from_query_cache = 0,
    query_cache_min_query_runs = 1000000
