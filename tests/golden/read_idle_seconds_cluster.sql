SELECT min(idle_seconds) AS idle_seconds
FROM
(
    SELECT toFloat64(now()) - toFloat64(metadata_modification_time) AS idle_seconds
    FROM clusterAllReplicas('it\'s', system.tables)
    WHERE database = 'it\'s' AND name = 'ch_s3_stage_52115f13b013_0123_2_7_7'
    UNION ALL
    SELECT toFloat64(now()) - toFloat64(modification_time) AS idle_seconds
    FROM clusterAllReplicas('it\'s', system.parts)
    WHERE database = 'it\'s' AND table = 'ch_s3_stage_52115f13b013_0123_2_7_7'
)
