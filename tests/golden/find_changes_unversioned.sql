INSERT INTO FUNCTION cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8_changes')
WITH
    maxIf(ch_s3_version, ch_s3_is_staged) AS ch_s3_staged_version,
    maxIf(ch_s3_version, NOT ch_s3_is_staged) AS ch_s3_held_version,
    argMaxIf(ch_s3_is_deletion, ch_s3_version, ch_s3_is_staged) AS ch_s3_is_deleted,
    minIf(toUInt32(ch_s3_place), NOT ch_s3_is_staged) AS ch_s3_first_partition,
    maxIf(toUInt32(ch_s3_place), NOT ch_s3_is_staged) AS ch_s3_last_partition,
    argMaxIf(ch_s3_digest, ch_s3_version, ch_s3_is_staged) = argMaxIf(ch_s3_digest, ch_s3_version, NOT ch_s3_is_staged) AS ch_s3_is_same
SELECT
    `ch_s3_key_1`, `ch_s3_key_2`,
    if(ch_s3_source = 'held', ch_s3_held_version, ch_s3_staged_version) AS ch_s3_kept_version,
    multiIf(
        ch_s3_held_rows = 0, if(ch_s3_is_deleted, 'unchanged', 'inserted'),
        ifNull(ch_s3_held_version > ch_s3_staged_version, 0), 'late',
        ch_s3_is_deleted, 'deleted',
        ch_s3_held_rows = 1 AND ifNull(ch_s3_is_same, 0), 'unchanged',
        'updated') AS ch_s3_outcome,
    ch_s3_held_rows > 1 OR ch_s3_outcome IN ('updated', 'deleted') AS ch_s3_drops,
    multiIf(ch_s3_outcome IN ('inserted', 'updated'), 'staged', ch_s3_held_rows > 1 AND ch_s3_outcome = 'late', 'held', '') AS ch_s3_source,
    if(ch_s3_source = 'held', argMaxIf(ch_s3_place, ch_s3_version, NOT ch_s3_is_staged), argMaxIf(ch_s3_place, ch_s3_version, ch_s3_is_staged)) AS ch_s3_kept_place,
    if(ch_s3_first_partition = ch_s3_last_partition, ch_s3_first_partition, 0) AS ch_s3_held_in,
    countIf(ch_s3_is_staged) AS ch_s3_staged_rows,
    countIf(NOT ch_s3_is_staged) AS ch_s3_held_rows
FROM
(
    SELECT
        `id` AS `ch_s3_key_1`,
        `tail\`num` AS `ch_s3_key_2`,
        0 AS ch_s3_version,
        reinterpretAsUInt128(sipHash128(formatRow('RowBinary', `id`, `tail\`num`, `dt`, `origin`))) AS ch_s3_digest,
        bitShiftLeft(toUInt64(transform(concat(hostName(), ':', toString(tcpPort())), ['it\'s:9000', 'b:9000'], [1, 2], toUInt32(0))), 32) + CRC32(_partition_id) AS ch_s3_place,
        toBool(1) AS ch_s3_is_staged,
        ch_s3_deleted AS ch_s3_is_deletion
    FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8')
    WHERE 1
    UNION ALL
    SELECT
        `id` AS `ch_s3_key_1`,
        `tail\`num` AS `ch_s3_key_2`,
        0 AS ch_s3_version,
        reinterpretAsUInt128(sipHash128(formatRow('RowBinary', `id`, `tail\`num`, `dt`, `origin`))) AS ch_s3_digest,
        bitShiftLeft(toUInt64(transform(concat(hostName(), ':', toString(tcpPort())), ['it\'s:9000', 'b:9000'], [1, 2], toUInt32(0))), 32) + CRC32(_partition_id) AS ch_s3_place,
        toBool(0) AS ch_s3_is_staged,
        toBool(0) AS ch_s3_is_deletion
    FROM cluster('it\'s', 'it\'s', 'a`b')
    WHERE (`id`, `tail\`num`) GLOBAL IN (
        SELECT `id`, `tail\`num` FROM cluster('it\'s', 'it\'s', 'ch_s3_stage_52115f13b013_0123_2_8_8') WHERE 1
    )
)
GROUP BY `ch_s3_key_1`, `ch_s3_key_2`
SETTINGS parallel_distributed_insert_select = 0, insert_shard_id = 1, distributed_foreground_insert = 1, max_execution_time = 0
