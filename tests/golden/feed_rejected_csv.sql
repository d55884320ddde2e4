CREATE MATERIALIZED VIEW IF NOT EXISTS `it's`.`feed\`` TO `it's`.`a\`b`
AS SELECT
    'ch-s3-it\'s' AS load_id,
    'q\'1' AS query_id,
    ch_s3_file AS file,
    ch_s3_row AS row,
    if(ch_s3_problem = '', ['id', 'it\'s', 'tail`num', 'code', 'kind', 'day', 'old', 'at', 'fine', 'price', 'ratio', 'huge', 'dt'][ch_s3_misfit], '') AS column,
    if(ch_s3_problem = '', ifNull(ch_s3_texts[ch_s3_misfit], ''), '') AS value,
    ch_s3_line AS line,
    multiIf(
        ch_s3_problem != '', ch_s3_problem,
        ch_s3_texts[ch_s3_misfit] IS NULL, 'no value, and the column is not Nullable',
        concat('not a ', ['UInt8', 'String', 'String', 'FixedString(2)', 'Enum8(\'it\\\'s\' = 1)', 'Date', 'Date32', 'DateTime(\'UTC\')', 'DateTime64(3)', 'Decimal(9, 2)', 'Float32', 'UInt256', 'Date'][ch_s3_misfit])) AS reason
FROM
(
SELECT
    file AS ch_s3_file,
    row AS ch_s3_row,
    line AS ch_s3_line,
    ch_s3_texts,
    ch_s3_problem,
    ch_s3_texts[1] AS `ch_s3_text_1`,
    accurateCastOrNull(ch_s3_text_1, 'UInt8') AS `ch_s3_value_1`,
    ch_s3_texts[2] AS `ch_s3_text_2`,
    ch_s3_text_2 AS `ch_s3_value_2`,
    ch_s3_texts[3] AS `ch_s3_text_3`,
    ch_s3_text_3 AS `ch_s3_value_3`,
    ch_s3_texts[4] AS `ch_s3_text_4`,
    if(length(ch_s3_text_4) <= 2, ch_s3_text_4, NULL) AS `ch_s3_value_4`,
    ch_s3_texts[5] AS `ch_s3_text_5`,
    if(ifNull(ch_s3_text_5 IN ('it\'s'), 0), accurateCastOrNull(if(ifNull(ch_s3_text_5 IN ('it\'s'), 0), assumeNotNull(ch_s3_text_5), 'it\'s'), 'Enum8(\'it\\\'s\' = 1)'), NULL) AS `ch_s3_value_5`,
    ch_s3_texts[6] AS `ch_s3_text_6`,
    if(if(match(ch_s3_text_6, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(ch_s3_text_6, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), toDate32(parseDateTime64BestEffortOrNull(ch_s3_text_6, 1, 'UTC')), NULL) BETWEEN toDate32('1970-01-01') AND toDate32('2149-06-06'), accurateCastOrNull(ifNull(if(if(match(ch_s3_text_6, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(ch_s3_text_6, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), toDate32(parseDateTime64BestEffortOrNull(ch_s3_text_6, 1, 'UTC')), NULL) BETWEEN toDate32('1970-01-01') AND toDate32('2149-06-06'), if(match(ch_s3_text_6, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(ch_s3_text_6, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), toDate32(parseDateTime64BestEffortOrNull(ch_s3_text_6, 1, 'UTC')), NULL), NULL), toDate32('1970-01-01')), 'Date'), NULL) AS `ch_s3_value_6`,
    ch_s3_texts[7] AS `ch_s3_text_7`,
    accurateCastOrNull(if(match(ch_s3_text_7, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(ch_s3_text_7, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), toDate32(parseDateTime64BestEffortOrNull(ch_s3_text_7, 1, 'UTC')), NULL), 'Date32') AS `ch_s3_value_7`,
    ch_s3_texts[8] AS `ch_s3_text_8`,
    if(if(NOT match(ch_s3_text_8, '(:\\d\\d|\\d{6})[.,]\\d{0}\\d*[1-9]') AND (match(ch_s3_text_8, '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])[T ]([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d([.,]\\d+)?)?(Z|[+-]([01]\\d|2[0-3]):?[0-5]\\d)?$') OR (match(ch_s3_text_8, '\\d{4}') AND NOT match(ch_s3_text_8, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'))), parseDateTime64BestEffortOrNull(ch_s3_text_8, 1, 'UTC'), NULL) BETWEEN toDateTime64('1970-01-01', 0, 'UTC') AND toDateTime64('2106-02-07 06:28:15', 0, 'UTC'), accurateCastOrNull(ifNull(if(if(NOT match(ch_s3_text_8, '(:\\d\\d|\\d{6})[.,]\\d{0}\\d*[1-9]') AND (match(ch_s3_text_8, '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])[T ]([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d([.,]\\d+)?)?(Z|[+-]([01]\\d|2[0-3]):?[0-5]\\d)?$') OR (match(ch_s3_text_8, '\\d{4}') AND NOT match(ch_s3_text_8, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'))), parseDateTime64BestEffortOrNull(ch_s3_text_8, 1, 'UTC'), NULL) BETWEEN toDateTime64('1970-01-01', 0, 'UTC') AND toDateTime64('2106-02-07 06:28:15', 0, 'UTC'), if(NOT match(ch_s3_text_8, '(:\\d\\d|\\d{6})[.,]\\d{0}\\d*[1-9]') AND (match(ch_s3_text_8, '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])[T ]([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d([.,]\\d+)?)?(Z|[+-]([01]\\d|2[0-3]):?[0-5]\\d)?$') OR (match(ch_s3_text_8, '\\d{4}') AND NOT match(ch_s3_text_8, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'))), parseDateTime64BestEffortOrNull(ch_s3_text_8, 1, 'UTC'), NULL), NULL), toDateTime64('1970-01-01', 0, 'UTC')), 'DateTime(\'UTC\')'), NULL) AS `ch_s3_value_8`,
    ch_s3_texts[9] AS `ch_s3_text_9`,
    accurateCastOrNull(if(NOT match(ch_s3_text_9, '(:\\d\\d|\\d{6})[.,]\\d{3}\\d*[1-9]') AND (match(ch_s3_text_9, '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])[T ]([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d([.,]\\d+)?)?(Z|[+-]([01]\\d|2[0-3]):?[0-5]\\d)?$') OR (match(ch_s3_text_9, '\\d{4}') AND NOT match(ch_s3_text_9, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'))), parseDateTime64BestEffortOrNull(ch_s3_text_9, 3), NULL), 'DateTime64(3)') AS `ch_s3_value_9`,
    ch_s3_texts[10] AS `ch_s3_text_10`,
    if(match(ch_s3_text_10, '\\.\\d{2}\\d*[1-9]|[eE]|^\\D*$'), NULL, accurateCastOrNull(ch_s3_text_10, 'Decimal(9, 2)')) AS `ch_s3_value_10`,
    ch_s3_texts[11] AS `ch_s3_text_11`,
    if(isFinite(toFloat32(accurateCastOrNull(ch_s3_text_11, 'Float64'))) OR NOT isFinite(accurateCastOrNull(ch_s3_text_11, 'Float64')), toFloat32(accurateCastOrNull(ch_s3_text_11, 'Float64')), NULL) AS `ch_s3_value_11`,
    ch_s3_texts[12] AS `ch_s3_text_12`,
    if(toString(accurateCastOrNull(ch_s3_text_12, 'UInt256')) = ch_s3_text_12, accurateCastOrNull(ch_s3_text_12, 'UInt256'), NULL) AS `ch_s3_value_12`,
    ch_s3_texts[13] AS `ch_s3_text_13`,
    if(if(match(ch_s3_text_13, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(ch_s3_text_13, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), toDate32(parseDateTime64BestEffortOrNull(ch_s3_text_13, 1, 'UTC')), NULL) BETWEEN toDate32('1970-01-01') AND toDate32('2149-06-06'), accurateCastOrNull(ifNull(if(if(match(ch_s3_text_13, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(ch_s3_text_13, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), toDate32(parseDateTime64BestEffortOrNull(ch_s3_text_13, 1, 'UTC')), NULL) BETWEEN toDate32('1970-01-01') AND toDate32('2149-06-06'), if(match(ch_s3_text_13, '^\\d{4}(\\d{4}|\\D\\d\\d?\\D\\d\\d?)([T ]00:00(:00(\\.0+)?)?Z?)?$') AND NOT match(ch_s3_text_13, '(^|[^\\d:])(2[4-9]|[3-9]\\d):|:[6-9]\\d|^\\d{8}T?(2[4-9]\\d{4}|[3-9]\\d{5}|\\d\\d[6-9]\\d{3}|\\d{4}[6-9]\\d)(\\D|$)|^\\d{8}T(2[4-9]|[3-9]\\d|\\d\\d[6-9]\\d)(\\D|$)|^\\d{4}[-/.]0?0[-/.]|^\\d{4}[-/.]\\d\\d?[-/.]0?0(\\D|$)|^0?0[-/.]|^\\d\\d?[-/.]0?0[-/.]|^(\\d{4}00\\d\\d|\\d{6}00)(\\d{6})?(\\D|$)'), toDate32(parseDateTime64BestEffortOrNull(ch_s3_text_13, 1, 'UTC')), NULL), NULL), toDate32('1970-01-01')), 'Date'), NULL) AS `ch_s3_value_13`,
    [`ch_s3_value_1` IS NULL, `ch_s3_value_2` IS NULL, `ch_s3_value_3` IS NULL AND `ch_s3_text_3` IS NOT NULL, `ch_s3_value_4` IS NULL, `ch_s3_value_5` IS NULL, `ch_s3_value_6` IS NULL AND `ch_s3_text_6` IS NOT NULL, `ch_s3_value_7` IS NULL, `ch_s3_value_8` IS NULL, `ch_s3_value_9` IS NULL, `ch_s3_value_10` IS NULL, `ch_s3_value_11` IS NULL, `ch_s3_value_12` IS NULL, `ch_s3_value_13` IS NULL] AS ch_s3_misfits,
    indexOf(ch_s3_misfits, 1) AS ch_s3_misfit,
    ch_s3_problem != '' OR ch_s3_misfit > 0 AS ch_s3_is_bad
FROM
(
    SELECT
        file,
        row,
        line,
        concat(line, ';') AS ch_s3_ended,
        extractAll(ch_s3_ended, '("(?:[^"]|"")*"[ \t]*|[^";][^;]*|);') AS ch_s3_fields,
        multiIf(
            NOT isValidUTF8(line), 'not UTF-8',
            (countSubstrings(line, '"') % 2 = 1 OR match(toValidUTF8(line), '^(?:("(?:[^"]|"")*"[ \t]*|[^";][^;]*|);)*"(?:[^"]|"")*$')), 'a quote is not closed',
            NOT match(ch_s3_ended, '^(?:("(?:[^"]|"")*"[ \t]*|[^";][^;]*|);)+$'), 'text follows a closing quote',
            length(ch_s3_fields) != 12, concat(toString(length(ch_s3_fields)), ' fields instead of 12'),
            '') AS ch_s3_problem,
        [
            multiIf(startsWith(ch_s3_fields[1], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[1]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[1])) - 2), '""', '"'), trim(BOTH ' \t' FROM ch_s3_fields[1]) IN ('', '\\N'), NULL, trim(BOTH ' \t' FROM ch_s3_fields[1])),
            multiIf(startsWith(ch_s3_fields[2], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[2]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[2])) - 2), '""', '"'), ch_s3_fields[2] IN ('\\N'), NULL, ch_s3_fields[2]),
            multiIf(startsWith(ch_s3_fields[3], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[3]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[3])) - 2), '""', '"'), ch_s3_fields[3] IN ('', '\\N'), NULL, ch_s3_fields[3]),
            multiIf(startsWith(ch_s3_fields[4], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[4]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[4])) - 2), '""', '"'), ch_s3_fields[4] IN ('', '\\N'), NULL, ch_s3_fields[4]),
            multiIf(startsWith(ch_s3_fields[5], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[5]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[5])) - 2), '""', '"'), ch_s3_fields[5] IN ('', '\\N'), NULL, ch_s3_fields[5]),
            multiIf(startsWith(ch_s3_fields[6], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[6]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[6])) - 2), '""', '"'), trim(BOTH ' \t' FROM ch_s3_fields[6]) IN ('', '\\N'), NULL, trim(BOTH ' \t' FROM ch_s3_fields[6])),
            multiIf(startsWith(ch_s3_fields[7], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[7]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[7])) - 2), '""', '"'), trim(BOTH ' \t' FROM ch_s3_fields[7]) IN ('', '\\N'), NULL, trim(BOTH ' \t' FROM ch_s3_fields[7])),
            multiIf(startsWith(ch_s3_fields[8], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[8]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[8])) - 2), '""', '"'), trim(BOTH ' \t' FROM ch_s3_fields[8]) IN ('', '\\N'), NULL, trim(BOTH ' \t' FROM ch_s3_fields[8])),
            multiIf(startsWith(ch_s3_fields[9], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[9]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[9])) - 2), '""', '"'), trim(BOTH ' \t' FROM ch_s3_fields[9]) IN ('', '\\N'), NULL, trim(BOTH ' \t' FROM ch_s3_fields[9])),
            multiIf(startsWith(ch_s3_fields[10], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[10]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[10])) - 2), '""', '"'), trim(BOTH ' \t' FROM ch_s3_fields[10]) IN ('', '\\N'), NULL, trim(BOTH ' \t' FROM ch_s3_fields[10])),
            multiIf(startsWith(ch_s3_fields[11], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[11]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[11])) - 2), '""', '"'), trim(BOTH ' \t' FROM ch_s3_fields[11]) IN ('', '\\N'), NULL, trim(BOTH ' \t' FROM ch_s3_fields[11])),
            multiIf(startsWith(ch_s3_fields[12], '"'), replaceAll(substring(trim(BOTH ' \t' FROM ch_s3_fields[12]), 2, length(trim(BOTH ' \t' FROM ch_s3_fields[12])) - 2), '""', '"'), trim(BOTH ' \t' FROM ch_s3_fields[12]) IN ('', '\\N'), NULL, trim(BOTH ' \t' FROM ch_s3_fields[12])),
            decodeURLComponent(nullIf(extract(file, '/dt=([^/]*)/'), '__HIVE_DEFAULT_PARTITION__'))
        ] AS ch_s3_texts
    FROM `it's`.`lines\``
))
WHERE ch_s3_is_bad
