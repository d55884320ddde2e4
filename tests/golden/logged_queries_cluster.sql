SELECT
    concat(hostName(), ':', toString(tcpPort())) AS node,
    initial_query_id,
    query_id,
    query_id = initial_query_id AS is_initial,
    toString(type) AS event,
    exception_code,
    exception,
    toFloat64(query_start_time_microseconds) AS start_seconds,
    query_duration_ms / 1000 AS duration_seconds,
    read_rows,
    written_rows,
    memory_usage AS peak_memory_bytes,
    ProfileEvents['ReadBufferFromS3Bytes'] + ProfileEvents['ReadBufferFromAzureBytes']
        + ProfileEvents['ReadWriteBufferFromHTTPBytes'] AS store_bytes,
    ProfileEvents['EngineFileLikeReadFiles'] AS files,
    ProfileEvents['S3ReadRequestsCount'] + ProfileEvents['AzureReadRequestsCount']
        + ProfileEvents['ReadWriteBufferFromHTTPRequestsSent'] AS requests,
    ProfileEvents['MergeTreeDataWriterBlocks'] AS initial_parts,
    ProfileEvents['MergeTreeDataWriterRows'] AS part_rows,
    ProfileEvents['MergeTreeDataWriterUncompressedBytes'] AS part_bytes,
    Settings AS settings,
    log_comment
FROM clusterAllReplicas('it\'s', system.query_log)
WHERE event_date >= toDate(now() - 3600) - 1
    AND event_time >= now() - 3600
    AND startsWith(initial_query_id, 'ch-s3-0\'1-2-')
