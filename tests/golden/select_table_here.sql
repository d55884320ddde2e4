SELECT *
FROM `it's`.`a\`b`
