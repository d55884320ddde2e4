SELECT `id`, max(0)
FROM (SELECT `id` FROM `it's`.`a\`b` LIMIT 0)
WHERE (`id`) IN (SELECT `id` FROM `it's`.`a\`b` LIMIT 0)
GROUP BY `id`
