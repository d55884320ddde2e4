INSERT INTO FUNCTION cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8_changes')
SELECT *
FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8_changes')
WHERE transform(concat(hostName(), ':', toString(tcpPort())), ['it\'s:9000', 'b:9000'], [1, 2], toUInt32(0)) = 1
SETTINGS parallel_distributed_insert_select = 0, insert_shard_id = 2,
    distributed_foreground_insert = 1, max_execution_time = 0
