SELECT
    count() AS ch_s3_rows,
    countIf(sipHash64(toString(tuple(id, `tail\`num`))) IN (
        SELECT sipHash64(toString(tuple(id, `tail\`num`)))
        FROM `it's`.`ch_s3_stage_52115f13b013_0123_2_7_7`
        WHERE _partition_id = '20130101-it\'s'
    )) AS ch_s3_same_rows
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
WHERE concat(hostName(), ':', toString(tcpPort())) = 'one:9000'
    AND _partition_id = '20130101-it\'s'
    AND toInt64(splitByChar('_', substring(_part, length(_partition_id) + 2))[2]) > 7
SETTINGS apply_deleted_mask = 0, prefer_global_in_and_join = 0, date_time_output_format = 'unix_timestamp',
    max_execution_time = 0
