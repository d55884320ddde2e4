"""Add columns to the table of a load, on every node: first to the local tables, then to the Distributed table.

A process that dies in between leaves tables with different columns. No load uses these tables until the next load
with the right to add columns levels them: each table gets the missing columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from airflow_provider_ch_s3.clickhouse.column_types import SCALARS, base_type, family, is_nullable, parts
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, DdlMode
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.introspection.table import Located, locate_table, read_columns, read_table
from airflow_provider_ch_s3.sql.table_queries import render_add_columns
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableColumn, TableName, has_replicas

log = get_log(__name__)


def for_earlier_rows(column: NewColumn) -> NewColumn:
    """Give a new column a type in which the table's present rows can lack a value."""
    base = base_type(column.type)
    if is_nullable(column.type) or parts(base) or family(base) not in SCALARS:
        return column
    kind = f"Nullable({base})"
    is_low = column.type.startswith("LowCardinality(")
    return NewColumn(name=column.name, type=f"LowCardinality({kind})" if is_low else kind)


def add_columns(
    client: ClickHouseClient, declaration: ClusterDeclaration, table: str, columns: Sequence[NewColumn]
) -> None:
    """Add columns to a table on every node; columns already present stay unchanged.

    :raises ServerError: if ClickHouse refuses.
    """
    located = locate_table(client, declaration, table)
    log.info("adding to %s: %s", located.found.name, ", ".join(f"{c.name} {c.type}" for c in columns))
    for name in _tables_of(located):
        _add(located, name, lambda _: columns)


def level_columns(client: ClickHouseClient, declaration: ClusterDeclaration, table: str) -> None:
    """Add to each table of a load the columns that only some of the load's tables have.

    :raises TargetError: if two tables have columns of the same name and different types.
    """
    located = locate_table(client, declaration, table)
    found = {name: read_columns(located.client, name, located.cluster.name) for name in _tables_of(located)}
    wanted: dict[str, TableColumn] = {}
    for by_node in found.values():
        for node, columns in by_node.items():
            for column in columns:
                if wanted.setdefault(column.name, column).type != column.type:
                    raise TargetError(
                        "tables-differ",
                        f"column {column.name!r} is {wanted[column.name].type} in one table of {table} and"
                        f" {column.type} on {node}; make them the same with ALTER TABLE",
                    )
    for name, by_node in found.items():
        _add(located, name, partial(_lacking, wanted, by_node))


def _lacking(
    wanted: Mapping[str, TableColumn], by_node: Mapping[str, Sequence[TableColumn]], node: str | None
) -> list[NewColumn]:
    """List the columns missing in a node's table; without a node, the columns missing in any table."""
    tables = [by_node[node]] if node else list(by_node.values())
    return [
        NewColumn(name=column.name, type=f"{column.type} {column.default_kind} {column.default_expression}".strip())
        for column in wanted.values()
        if any(column.name not in {one.name for one in table} for table in tables)
    ]


def _tables_of(located: Located) -> list[TableName]:
    found = located.found
    return [found.local, found.name] if found.distribution else [found.local]


def _add(
    located: Located,
    name: TableName,
    columns_of: Callable[[str | None], Sequence[NewColumn]],
) -> None:
    """:param columns_of: the columns to be added on a node; None stands for all nodes at once."""
    rows = read_table(located.client, name, located.cluster.name)
    is_replicated = any(has_replicas(row["engine"]) for row in rows)
    mode = located.found.server.ddl_mode(
        located.declaration, located.found.local.database, is_replicated=is_replicated
    )
    inside = located.client.within(located.declaration, mode, located.cluster)
    if mode is DdlMode.PER_HOST:
        for row in rows:
            if columns := columns_of(row["node"]):
                inside.execute_on([row["node"]], render_add_columns(name, None, columns=columns))
    elif columns := columns_of(None):
        inside.execute_everywhere(partial(render_add_columns, name, columns=columns))
