SELECT cluster
FROM system.clusters
GROUP BY cluster
HAVING count() > 1 AND max(is_local)
ORDER BY cluster
