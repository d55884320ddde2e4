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
    FROM clusterAllReplicas('it\'s', system.columns)
    WHERE (database, table) IN (('it\'s', 'led`ger'), ('it\'s', 'led`ger_files'))
    GROUP BY concat(hostName(), ':', toString(tcpPort())), database, table
)
GROUP BY database, table
