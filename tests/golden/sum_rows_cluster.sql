SELECT
    count() AS ch_s3_rows,
    sum(sipHash64(toString(tuple(id, `tail\`num`)))) AS ch_s3_sum
FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
WHERE concat(hostName(), ':', toString(tcpPort())) = 'one:9000'
    AND _partition_id = '20130101-it\'s'
SETTINGS date_time_output_format = 'unix_timestamp', max_execution_time = 0
