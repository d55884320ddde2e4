CREATE MATERIALIZED VIEW IF NOT EXISTS `it's`.`feed\`` ON CLUSTER `it's` TO `it's`.`a\`b`
AS SELECT
    'ch-s3-it\'s' AS load_id,
    'q\'1' AS query_id,
    ch_s3_file AS file,
    ch_s3_row AS row,
    if(ch_s3_problem = '', ['id', 'it\'s', 'tail`num'][ch_s3_bad_column], '') AS column,
    if(ch_s3_problem = '', ifNull(ch_s3_texts[ch_s3_bad_column], ''), '') AS value,
    ch_s3_line AS line,
    multiIf(
        ch_s3_problem != '', ch_s3_problem,
        ch_s3_texts[ch_s3_bad_column] IS NULL, 'no value, and the column is not Nullable',
        concat('not a ', ['UInt8', 'String', 'String'][ch_s3_bad_column])) AS reason
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
    [`ch_s3_value_1` IS NULL, `ch_s3_value_2` IS NULL, `ch_s3_value_3` IS NULL AND `ch_s3_text_3` IS NOT NULL] AS ch_s3_bad_columns,
    indexOf(ch_s3_bad_columns, 1) AS ch_s3_bad_column,
    ch_s3_problem != '' OR ch_s3_bad_column > 0 AS ch_s3_is_bad
FROM
(
    SELECT
        file,
        row,
        line,
        if(match(line, '[0-9]{19}'), arrayStringConcat(arrayMap(piece -> if(startsWith(piece, '"'), piece, replaceRegexpAll(replaceRegexpAll(piece, '([:,\\[]\\s*)(-?[0-9]{19,})(\\s*[,}\\]])', '\\1"\\2"\\3'), '([:,\\[]\\s*)(-?[0-9]{19,})(\\s*[,}\\]])', '\\1"\\2"\\3')), extractAll(line, '"(?:[^"\\\\]|\\\\.)*"|[^"]+|"'))), line) AS ch_s3_object,
        JSONExtractKeys(ch_s3_object) AS ch_s3_keys,
        arrayFilter(name -> name NOT IN ('id', 'it\'s', 'tail`num'), ch_s3_keys) AS ch_s3_unknown,
        arrayFilter(name -> name != '', [if(JSONType(ch_s3_object, 'id') IN ('Object', 'Array') OR (JSONType(ch_s3_object, 'id') = 'Double' AND ifNull(toFloat64OrNull(extract(ch_s3_object, '"id"\\s*:\\s*(-?[0-9][0-9.eE+-]*)')) = toFloat64OrNull(JSONExtractRaw(ch_s3_object, 'id')) AND countMatches(ch_s3_object, '"id"\\s*:') = 1, 0) = 0), 'id', ''), if(JSONType(ch_s3_object, 'it\'s') IN ('Object', 'Array') OR (JSONType(ch_s3_object, 'it\'s') = 'Double' AND ifNull(toFloat64OrNull(extract(ch_s3_object, '"it\'s"\\s*:\\s*(-?[0-9][0-9.eE+-]*)')) = toFloat64OrNull(JSONExtractRaw(ch_s3_object, 'it\'s')) AND countMatches(ch_s3_object, '"it\'s"\\s*:') = 1, 0) = 0), 'it\'s', ''), if(JSONType(ch_s3_object, 'tail`num') IN ('Object', 'Array') OR (JSONType(ch_s3_object, 'tail`num') = 'Double' AND ifNull(toFloat64OrNull(extract(ch_s3_object, '"tail`num"\\s*:\\s*(-?[0-9][0-9.eE+-]*)')) = toFloat64OrNull(JSONExtractRaw(ch_s3_object, 'tail`num')) AND countMatches(ch_s3_object, '"tail`num"\\s*:') = 1, 0) = 0), 'tail`num', '')]) AS ch_s3_inexact,
        multiIf(
            NOT isValidUTF8(line), 'not UTF-8',
            NOT isValidJSON(ch_s3_object) OR JSONType(ch_s3_object) != 'Object', 'not a JSON object',
            length(arrayDistinct(ch_s3_keys)) != length(ch_s3_keys), 'a field twice',
            notEmpty(ch_s3_unknown), concat('unknown field ', ch_s3_unknown[1]),
            notEmpty(ch_s3_inexact), concat('a nested value, or a number with too many digits, in ', ch_s3_inexact[1]),
            '') AS ch_s3_problem,
        [
            multiIf(JSONType(ch_s3_object, 'id') = 'Null', NULL, JSONType(ch_s3_object, 'id') = 'String', JSONExtractString(ch_s3_object, 'id'), JSONType(ch_s3_object, 'id') = 'Double', extract(ch_s3_object, '"id"\\s*:\\s*(-?[0-9][0-9.eE+-]*)'), JSONExtractRaw(ch_s3_object, 'id')),
            multiIf(JSONType(ch_s3_object, 'it\'s') = 'Null', NULL, JSONType(ch_s3_object, 'it\'s') = 'String', JSONExtractString(ch_s3_object, 'it\'s'), JSONType(ch_s3_object, 'it\'s') = 'Double', extract(ch_s3_object, '"it\'s"\\s*:\\s*(-?[0-9][0-9.eE+-]*)'), JSONExtractRaw(ch_s3_object, 'it\'s')),
            multiIf(JSONType(ch_s3_object, 'tail`num') = 'Null', NULL, JSONType(ch_s3_object, 'tail`num') = 'String', JSONExtractString(ch_s3_object, 'tail`num'), JSONType(ch_s3_object, 'tail`num') = 'Double', extract(ch_s3_object, '"tail`num"\\s*:\\s*(-?[0-9][0-9.eE+-]*)'), JSONExtractRaw(ch_s3_object, 'tail`num'))
        ] AS ch_s3_texts
    FROM `it's`.`lines\``
))
WHERE ch_s3_is_bad
