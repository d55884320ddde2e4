ALTER TABLE `it's`.`ch_s3_stage_52115f13b013_0123_2_7_9_merged` ON CLUSTER `it's`
MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1,
    min_age_to_force_merge_seconds = 0, max_number_of_merges_with_ttl_in_pool = 0,
    number_of_free_entries_in_pool_to_execute_mutation = 0, remove_empty_parts = 0
