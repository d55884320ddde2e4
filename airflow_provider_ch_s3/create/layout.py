"""Choose keys and engine of a new table, each with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from airflow_provider_ch_s3.clickhouse.column_types import UUID_BYTES, base_type, family, is_nullable
from airflow_provider_ch_s3.common.text import did_you_mean, show_name
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.snapshots import Layout
from airflow_provider_ch_s3.sql.filters import short_identifier
from airflow_provider_ch_s3.table.new_table import CreateTable, NewColumn, NewTable
from airflow_provider_ch_s3.table.target import Distribution, TableName, has_replicas, is_merge_tree


def plan_table(
    create: CreateTable,
    name: TableName,
    local: TableName,
    columns: Sequence[NewColumn],
    *,
    layout: Layout,
    needs_partitions: bool,
    cluster: str | None,
    is_replicated: bool,
) -> NewTable:
    """Lay out a table with these columns.

    :param layout: of the lake table with the rows.
    :param needs_partitions: loads replace whole partitions.
    :param is_replicated: the table is to have replicas.
    :raises ConfigError: if the user's choices contradict the columns, the mode or the cluster.
    """
    typed = _with_types(_with_uuids(columns, layout), create.types)
    engine, engine_reason = _choose_engine(create, is_replicated=is_replicated)
    keys, keys_reason = _choose_keys(create, engine, typed, layout)
    partition, partition_reason = _choose_partition(create, engine, typed, layout, needs_partitions=needs_partitions)
    return NewTable(
        name=name,
        local=local,
        columns=typed,
        engine=engine,
        order_by=keys,
        partition_by=partition,
        settings=create.settings,
        distribution=Distribution(cluster=cluster or "", local=local, sharding_key=create.sharding_key)
        if name != local
        else None,
        reasons=(
            f"ENGINE = {engine}: {engine_reason}",
            f"ORDER BY {', '.join(keys) or 'nothing'}: {keys_reason}",
            f"PARTITION BY {partition or 'nothing'}: {partition_reason}",
            *(f"{show_name(one.name)} {one.type}: {one.reason}" for one in typed if one.reason),
        ),
    )


_GIVEN = "as create_table says"
_KEYLESS = "tables of this engine have none"
# The partitions of a lake table, as expressions.
_PARTS = {
    "identity": "{}",
    "year": "toYear({})",
    "month": "toYYYYMM({})",
    "day": "toDate({})",
    "hour": "toStartOfHour({})",
}


def _parts(layout: Layout) -> str:
    return "partitions" if layout.partition_by else "folders"


def _with_uuids(columns: Sequence[NewColumn], layout: Layout) -> Sequence[NewColumn]:
    return [
        replace(column, type=column.type.replace(UUID_BYTES, "UUID")) if column.name in layout.uuids else column
        for column in columns
    ]


def _with_types(columns: Sequence[NewColumn], types: Mapping[str, str]) -> tuple[NewColumn, ...]:
    if unknown := sorted(set(types) - {column.name for column in columns}):
        known = ", ".join(show_name(column.name) for column in columns)
        raise ConfigError(
            "columns-unknown",
            f"create_table has a type for {unknown[0]!r}, and the files have no such column; they have {known}",
        )
    return tuple(
        replace(column, type=types[column.name], reason="") if column.name in types else column for column in columns
    )


def _check_names(argument: str, keys: Iterable[str], columns: Sequence[NewColumn]) -> None:
    """Check that the new table has the columns in a key; of expressions, only ClickHouse knows the columns."""
    known = [column.name for column in columns]
    for name in keys:
        if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in known:
            remedy = did_you_mean(name, known, otherwise=f"it has {', '.join(map(show_name, known))}")
            raise ConfigError(
                "columns-unknown",
                f"create_table has {argument}={name!r}, which is not a column of the files; {remedy}",
            )


def _choose_engine(create: CreateTable, *, is_replicated: bool) -> tuple[str, str]:
    if not create.engine:
        if is_replicated:
            return "ReplicatedMergeTree", "the shards have replicas, which are to hold the same rows"
        return "MergeTree", "it keeps every row, on shards without replicas"
    if is_replicated and is_merge_tree(create.engine) and not has_replicas(create.engine):
        raise ConfigError(
            "engine-not-replicated",
            f"create_table has the engine {create.engine}, which keeps no replicas, and the shards have some; write"
            f" Replicated{create.engine}",
        )
    return create.engine, _GIVEN


def _may_be_key(column: NewColumn) -> bool:
    """Whether ClickHouse can read the table's definition again with the column in a key (24.8 to 26.7)."""
    return column.name.lower() not in ("false", "not", "null", "true")


def _choose_keys(
    create: CreateTable, engine: str, columns: Sequence[NewColumn], layout: Layout
) -> tuple[tuple[str, ...], str]:
    if create.keys is not None:
        _check_names("order_by", create.keys, columns)
        return create.keys, _GIVEN
    if not is_merge_tree(engine):
        return (), _KEYLESS
    usable = [c for c in columns if _may_be_key(c) and not (c.is_provenance or is_nullable(c.bare_type))]
    names = {column.name for column in usable}
    if in_order := tuple(takewhile(names.__contains__, layout.sorted_by)):
        return tuple(map(short_identifier, in_order)), "the lake table is sorted like that"
    keys = [column.name for column in usable if column.in_path or column.name in layout.partition_by]
    times = [column.name for column in usable if not column.in_path and family(base_type(column.bare_type)) == "time"]
    if not layout.partition_by.keys() & set(times):
        keys += times[:1]
    if not keys:
        return (
            (),
            "the files have neither folders nor times; queries are faster if order_by names what they filter by",
        )
    reason = f"{_parts(layout)} and the first time are what most queries filter by; give order_by if yours do not"
    return tuple(short_identifier(name) for name in keys), reason


def _choose_partition(
    create: CreateTable, engine: str, columns: Sequence[NewColumn], layout: Layout, *, needs_partitions: bool
) -> tuple[str, str]:
    if create.partition_by is not None:
        _check_names("partition_by", [create.partition_by], columns)
        return create.partition_by, _GIVEN
    if not is_merge_tree(engine):
        return "", _KEYLESS
    units = {column.name: "identity" for column in columns if column.in_path} | dict(layout.partition_by)
    parts = [c for c in columns if c.name in units and _may_be_key(c) and not is_nullable(c.bare_type)]
    if needs_partitions:
        keys = [_PARTS[units[column.name]].format(short_identifier(column.name)) for column in parts]
        if not keys:
            raise ConfigError(
                "partition-key-missing",
                "mode='replace_partitions' needs a partition key, and the files are in no name=value/ folders"
                " that suggest one; give create_table={'partition_by': '…'}",
            )
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        return key, f"a load replaces what its {_parts(layout)} hold"
    times = (column.name for column in parts if family(base_type(column.bare_type)) == "time")
    if first := next(times, ""):
        return f"toYYYYMM({short_identifier(first)})", "a partition for each month keeps their number small"
    return "", "a table needs partitions only to drop or replace some of its rows at once"
