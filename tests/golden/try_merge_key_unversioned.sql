SELECT `id`, `tail\`num`, max(0)
FROM (SELECT `id`, `tail\`num` FROM `it's`.`a\`b` LIMIT 0)
WHERE (`id`, `tail\`num`) IN (SELECT `id`, `tail\`num` FROM `it's`.`a\`b` LIMIT 0)
GROUP BY `id`, `tail\`num`
