CREATE MATERIALIZED VIEW IF NOT EXISTS `it's`.`feed\`` ON CLUSTER `it's` TO `it's`.`a\`b`
AS SELECT
    file,
    count() AS line_count,
    minIf(row, (countSubstrings(line, '"') % 2 = 1 OR match(toValidUTF8(line), '^(?:("(?:[^"]|"")*"[ \t]*|[^";][^;]*|);)*"(?:[^"]|"")*$'))) AS opened_row,
    maxIf(row, (countSubstrings(line, '"') % 2 = 1 OR match(toValidUTF8(line), '^(?:[^"]|"")*"[ \t]*(?:;|$)'))) AS ended_row
FROM `it's`.`lines\``
GROUP BY file
