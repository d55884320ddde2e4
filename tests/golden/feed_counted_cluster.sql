CREATE MATERIALIZED VIEW IF NOT EXISTS `it's`.`feed\`` ON CLUSTER `it's` TO `it's`.`a\`b`
AS SELECT count() AS line_count FROM `it's`.`lines\``
