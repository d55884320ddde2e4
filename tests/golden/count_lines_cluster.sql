SELECT
    sum(file_lines) AS line_count,
    minIf(file, is_open) AS open_file,
    argMinIf(opened, file, is_open) AS opened_at,
    argMinIf(ended, file, is_open) AS ended_at
FROM
(
    SELECT
        file,
        sum(line_count) AS file_lines,
        minIf(opened_row, opened_row > 0) AS opened,
        max(ended_row) AS ended,
        opened > 0 AND opened < ended AS is_open
    FROM clusterAllReplicas('it\'s', 'it\'s', 'a`b')
    GROUP BY file
)
SETTINGS max_execution_time = 0
