SELECT
    currentDatabase() AS database,
    mapFromArrays(groupArray(macro), groupArray(substitution)) AS macros
FROM system.macros
