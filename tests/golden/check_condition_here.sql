SELECT count()
FROM (SELECT `id`, `tail\`num` FROM `it's`.`a\`b` LIMIT 0)
WHERE (dt = '2013-01-01' OR origin IS NULL)
SETTINGS use_query_cache = 1, query_cache_nondeterministic_function_handling = 'throw',
    query_cache_system_table_handling = 'throw', enable_reads_from_query_cache = 0,
    query_cache_min_query_runs = 1000000
