"""The table that a load writes to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.sql.expressions import split_expressions

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


@dataclass(frozen=True, kw_only=True)
class TableName:
    """A table and its database."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """A column of the target; ``default_kind`` is '', DEFAULT, MATERIALIZED, ALIAS or EPHEMERAL."""

    name: str
    type: str
    default_kind: str = ""

    @property
    def is_insertable(self) -> bool:
        return self.default_kind in ("", "DEFAULT")

    @property
    def is_required(self) -> bool:
        return self.default_kind == ""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """What a Distributed table says of itself; an empty ``sharding_key`` means that it has none."""

    cluster: str
    local: TableName
    sharding_key: str = ""

    @property
    def is_random(self) -> bool:
        """Whether any row may live on any shard, so that each node may keep what it reads."""
        return not self.sharding_key or re.fullmatch(r"rand(64|32)?\(\)", self.sharding_key) is not None


@dataclass(frozen=True, kw_only=True)
class TargetSpec:
    """The table a load writes to, the same on all nodes.

    :param name: as the user wrote it: a local table or a Distributed one.
    :param local: the table that holds the parts on each node.
    :param engine: engine of ``local``, e.g. ``ReplacingMergeTree``.
    :param distribution: None if ``name`` is ``local``.
    :param spans_cluster: ``name`` is a local table that exists on each node of the cluster.
    """

    name: TableName
    local: TableName
    engine: str
    columns: tuple[TableColumn, ...]
    partition_key: str
    sorting_key: str
    distribution: Distribution | None = None
    spans_cluster: bool = False


def parse_table(text: str, default_database: str) -> TableName:
    """Parse ``table`` or ``database.table``; quote a part with backquotes if it holds a dot.

    :raises ConfigError: if it is neither.
    """
    quoted = r"`(?:[^`\\]|\\.)+`"
    plain = r"[^`.\s]+"
    match = re.fullmatch(rf"(?:(?P<database>{quoted}|{plain})\.)?(?P<table>{quoted}|{plain})", text.strip())
    if match is None:
        raise ConfigError(f"table {text!r} is not a table name; write it as 'table' or 'database.table'")
    database, table = match["database"], match["table"]
    return TableName(database=_unquoted(database) if database else default_database, table=_unquoted(table))


def parse_distribution(engine_full: str) -> Distribution:
    """Parse ``system.tables.engine_full`` of a Distributed table.

    :raises TargetError: if the text is not one.
    """
    match = re.match(r"Distributed\((?P<arguments>.*)\)", engine_full, re.DOTALL)
    arguments = split_expressions(match["arguments"]) if match else []
    if len(arguments) < 3:
        raise TargetError(f"cannot read the engine of a Distributed table in {engine_full!r}")
    cluster, database, table = (_unquoted(argument) for argument in arguments[:3])
    return Distribution(
        cluster=cluster,
        local=TableName(database=database, table=table),
        sharding_key=arguments[3] if len(arguments) > 3 else "",
    )


def _unquoted(text: str) -> str:
    if text[:1] in "'`" and text[:1] == text[-1:]:
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1], flags=re.DOTALL)
    return text
