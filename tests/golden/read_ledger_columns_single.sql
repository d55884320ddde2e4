SELECT database, table, groupUniqArray(columns) AS columns
FROM
(
    SELECT
        database,
        table,
        arrayMap(
            column -> (column.2, column.3, column.4, column.5),
            arraySort(groupArray((position, name, type, default_kind, default_expression)))
        ) AS columns
    FROM system.columns
    WHERE (database, table) IN (('it\'s', 'led`ger'))
    GROUP BY concat(hostName(), ':', toString(tcpPort())), database, table
)
GROUP BY database, table
SETTINGS skip_unavailable_shards = 0
