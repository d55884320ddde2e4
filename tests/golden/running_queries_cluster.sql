SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    initial_query_id,
    query_id,
    query_id = initial_query_id AS is_initial,
    elapsed AS elapsed_seconds,
    read_rows,
    peak_memory_usage AS peak_memory_bytes,
    ProfileEvents['ReadBufferFromS3Bytes'] + ProfileEvents['ReadBufferFromAzureBytes']
        + ProfileEvents['ReadWriteBufferFromHTTPBytes'] AS store_bytes,
    Settings['log_comment'] AS log_comment
FROM clusterAllReplicas('it\'s', system.processes)
WHERE startsWith(initial_query_id, 'ch-s3-0\'1-2-')
