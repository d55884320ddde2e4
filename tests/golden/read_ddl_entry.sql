SELECT
    concat(host, ':', toString(port)) AS node,
    ifNull(status = 'Finished', 0) AS finished,
    ifNull(status = 'Active', 0) AS active,
    ifNull(exception_code, 0) AS code,
    ifNull(exception_text, '') AS failure
FROM system.distributed_ddl_queue
WHERE settings['log_comment'] = 'ch-s3-ddl-\'1'
ORDER BY node
