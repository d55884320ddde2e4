"""A table that a load creates: what the user says about the table, and what is created."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_provider_ch_s3.clickhouse.expressions import split_expressions
from airflow_provider_ch_s3.common.arguments import parse_texts
from airflow_provider_ch_s3.common.declared import (
    EXPRESSIONS,
    FLAG,
    SETTINGS,
    SQL,
    Form,
    Kind,
    Value,
    declared,
    parse_list,
    value_of,
)
from airflow_provider_ch_s3.table.target import Distribution, TableColumn, TableName, TargetSpec, is_merge_tree

AUTO = "auto"
_CLAUSE = re.compile(r"\s(?=(?:DEFAULT|CODEC|COMMENT|TTL)\b)")


def _parse_order(name: str, value: Any) -> str | tuple[str, ...]:
    given = parse_list(name, value)
    return given if isinstance(given, str) else parse_texts(name, given)


_ORDER = Kind(_parse_order, Form.SQL, of=SQL)


@dataclass(frozen=True, repr=False)
class CreateTable(Value):
    """Properties of a new table; whatever is left out is chosen from the files and the cluster.

    :param order_by: names or SQL expressions of ORDER BY, best the columns that queries filter by; None: the columns
        of the folders, then the first column with a time.
    :param partition_by: SQL expression of PARTITION BY; '' for no partitions; None: the month of the folders' date,
        or the folders' columns for ``ReplacePartitions``.
    :param engine: such as ``ReplacingMergeTree(version)``; '' for ``MergeTree``, or ``ReplicatedMergeTree`` if shards
        have replicas.
    :param settings: of the table, such as ``storage_policy``.
    :param types: column → ClickHouse's type, instead of the type suggested by the files; may be followed by
        ``DEFAULT …`` or ``CODEC(…)``.
    :param distributed: whether ``table`` becomes a Distributed table over local tables named ``<table>_local``; None:
        if the cluster has several shards.
    :param sharding_key: of the Distributed table.
    """

    name: ClassVar[str] = AUTO
    order_by: str | Sequence[str] | None = declared(_ORDER, None)
    partition_by: str | None = declared(SQL, None)
    engine: str = declared(SQL, "")
    settings: Mapping[str, str | int | float] = declared(SETTINGS, {})
    types: Mapping[str, str] = declared(EXPRESSIONS, {})
    distributed: bool | None = declared(FLAG, None)
    sharding_key: str = declared(SQL, "rand()")

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The expressions of ORDER BY as a list; None if they are to be chosen."""
        if self.order_by is None:
            return None
        return tuple(split_expressions(self.order_by) if isinstance(self.order_by, str) else self.order_by)


CREATE_TABLE = value_of(
    CreateTable,
    short=lambda value: CreateTable() if value == AUTO else None,
    remedy="give 'auto', or CreateTable(order_by=…)",
)


@dataclass(frozen=True, kw_only=True)
class NewColumn:
    """A column of a new table.

    :param type: with DEFAULT or CODEC, if given by the user.
    :param reason: why the column has this type, if the values decided.
    :param is_provenance: the load itself fills the column, with where a row came from.
    """

    name: str
    type: str
    in_path: bool = False
    is_provenance: bool = False
    reason: str = ""

    @property
    def bare_type(self) -> str:
        """The type alone."""
        return _CLAUSE.split(self.type, maxsplit=1)[0].strip()

    @property
    def has_default(self) -> bool:
        return re.search(r"\sDEFAULT\s", self.type) is not None


@dataclass(frozen=True, kw_only=True)
class NewTable:
    """A table to be created, with the reasons for the choices.

    :param name: the table named by the user; ``local``: the table with the parts.
    :param order_by: the expressions of ORDER BY; ``partition_by``: '' for no partitions.
    :param distribution: None if ``name`` is ``local``.
    :param reasons: what was chosen, and why.
    """

    name: TableName
    local: TableName
    columns: tuple[NewColumn, ...]
    engine: str
    order_by: tuple[str, ...]
    partition_by: str
    settings: Mapping[str, str | int | float]
    distribution: Distribution | None
    reasons: tuple[str, ...] = ()

    @property
    def comment(self) -> str:
        """The comment that marks the table as created for this name."""
        return f"rows of {self.name}, created by airflow-provider-ch-s3"

    @property
    def is_merge_tree(self) -> bool:
        """Whether the engine has keys and partitions."""
        return is_merge_tree(self.engine)

    @property
    def target(self) -> TargetSpec:
        """The table as a load will find it."""
        return TargetSpec(
            name=self.name,
            local=self.local,
            engine=self.engine.partition("(")[0],
            columns=tuple(
                TableColumn(name=c.name, type=c.bare_type, default_kind="DEFAULT" if c.has_default else "")
                for c in self.columns
            ),
            partition_key=self.partition_by,
            distribution=self.distribution,
        )
