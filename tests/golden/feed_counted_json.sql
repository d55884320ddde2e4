CREATE MATERIALIZED VIEW IF NOT EXISTS `it's`.`feed\`` TO `it's`.`a\`b`
AS SELECT
    file,
    count() AS line_count,
    0 AS opened_row,
    0 AS ended_row
FROM `it's`.`lines\``
GROUP BY file
