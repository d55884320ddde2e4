CREATE MATERIALIZED VIEW IF NOT EXISTS `it's`.`feed\`` ON CLUSTER `it's` TO `it's`.`a\`b`
AS SELECT
    'ch-s3-it\'s' AS load_id,
    'q\'1' AS query_id,
    ch_s3_file AS file,
    ch_s3_row AS row,
    if(ch_s3_problem = '', ['id', 'it\'s', 'tail`num'][ch_s3_misfit], '') AS column,
    if(ch_s3_problem = '', ifNull(ch_s3_texts[ch_s3_misfit], ''), '') AS value,
    ch_s3_line AS line,
    multiIf(
        ch_s3_problem != '', ch_s3_problem,
        ch_s3_texts[ch_s3_misfit] IS NULL, 'no value, and the column is not Nullable',
        concat('not a ', ['UInt8', 'String', 'String'][ch_s3_misfit])) AS reason
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
    [`ch_s3_value_1` IS NULL, `ch_s3_value_2` IS NULL, `ch_s3_value_3` IS NULL AND `ch_s3_text_3` IS NOT NULL] AS ch_s3_misfits,
    indexOf(ch_s3_misfits, 1) AS ch_s3_misfit,
    ch_s3_problem != '' OR ch_s3_misfit > 0 AS ch_s3_is_bad
FROM
(
    SELECT
        file,
        row,
        line,
        JSONExtractKeys(line) AS ch_s3_keys,
        arrayFilter(name -> name NOT IN ('id', 'it\'s', 'tail`num'), ch_s3_keys) AS ch_s3_unknown,
        arrayFilter(name -> name != '', [if(JSONType(line, 'id') IN ('Object', 'Array') OR (JSONType(line, 'id') = 'Double' AND ifNull(toFloat64OrNull(extract(line, '"id"\\s*:\\s*(-?[0-9][0-9.eE+-]*)')) = toFloat64OrNull(JSONExtractRaw(line, 'id')), 0) = 0), 'id', ''), if(JSONType(line, 'it\'s') IN ('Object', 'Array') OR (JSONType(line, 'it\'s') = 'Double' AND ifNull(toFloat64OrNull(extract(line, '"it\'s"\\s*:\\s*(-?[0-9][0-9.eE+-]*)')) = toFloat64OrNull(JSONExtractRaw(line, 'it\'s')), 0) = 0), 'it\'s', ''), if(JSONType(line, 'tail`num') IN ('Object', 'Array') OR (JSONType(line, 'tail`num') = 'Double' AND ifNull(toFloat64OrNull(extract(line, '"tail`num"\\s*:\\s*(-?[0-9][0-9.eE+-]*)')) = toFloat64OrNull(JSONExtractRaw(line, 'tail`num')), 0) = 0), 'tail`num', '')]) AS ch_s3_inexact,
        multiIf(
            NOT isValidUTF8(line), 'not UTF-8',
            NOT isValidJSON(line) OR JSONType(line) != 'Object', 'not a JSON object',
            length(arrayDistinct(ch_s3_keys)) != length(ch_s3_keys), 'a field twice',
            notEmpty(ch_s3_unknown), concat('unknown field ', ch_s3_unknown[1]),
            notEmpty(ch_s3_inexact), concat('a nested value, or a number with too many digits, in ', ch_s3_inexact[1]),
            '') AS ch_s3_problem,
        [
            multiIf(JSONType(line, 'id') = 'Null', NULL, JSONType(line, 'id') = 'String', JSONExtractString(line, 'id'), JSONType(line, 'id') = 'Double', extract(line, '"id"\\s*:\\s*(-?[0-9][0-9.eE+-]*)'), JSONExtractRaw(line, 'id')),
            multiIf(JSONType(line, 'it\'s') = 'Null', NULL, JSONType(line, 'it\'s') = 'String', JSONExtractString(line, 'it\'s'), JSONType(line, 'it\'s') = 'Double', extract(line, '"it\'s"\\s*:\\s*(-?[0-9][0-9.eE+-]*)'), JSONExtractRaw(line, 'it\'s')),
            multiIf(JSONType(line, 'tail`num') = 'Null', NULL, JSONType(line, 'tail`num') = 'String', JSONExtractString(line, 'tail`num'), JSONType(line, 'tail`num') = 'Double', extract(line, '"tail`num"\\s*:\\s*(-?[0-9][0-9.eE+-]*)'), JSONExtractRaw(line, 'tail`num'))
        ] AS ch_s3_texts
    FROM `it's`.`lines\``
))
WHERE ch_s3_is_bad
