"""Where a row came from: columns of the table filled by the load itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from airflow_provider_ch_s3.clickhouse.column_types import base_type, parse_type
from airflow_provider_ch_s3.common.arguments import parse_choice, parse_items
from airflow_provider_ch_s3.common.declared import parse_literal
from airflow_provider_ch_s3.common.text import show_name, show_version
from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.files.file_format import FileFormat
from airflow_provider_ch_s3.table.mapping import MappedColumn
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TargetSpec


class Origin(Enum):
    """What a column says about a row.

    ``PATH``: the file; ``ROW``: the row's number in the file, from 1; ``TIME``: when the server began to load the
    row; ``LOAD``: the query id of the INSERT.
    """

    PATH = "path"
    ROW = "row"
    TIME = "time"
    LOAD = "load"


Provenance = Mapping[str, Origin]
"""Column of the table → what the column says."""

_VIRTUAL = {Origin.PATH: "_path", Origin.ROW: "_row_number"}
# A number that the server does not know is -1 or NULL, and neither fits.
_EXPRESSIONS = {
    Origin.PATH: _VIRTUAL[Origin.PATH],
    Origin.ROW: f"accurateCast({_VIRTUAL[Origin.ROW]}, 'UInt64') + 1",
    Origin.TIME: "now()",
    Origin.LOAD: "initialQueryID()",
}
_TYPES = {
    Origin.PATH: "LowCardinality(String)",
    Origin.ROW: "UInt64",
    Origin.TIME: "DateTime",
    Origin.LOAD: "LowCardinality(String)",
}
_FITTING = {
    Origin.PATH: ("String",),
    Origin.ROW: ("UInt64", "Int64"),
    Origin.TIME: ("DateTime", "DateTime64"),
    Origin.LOAD: ("String",),
}
# 24.8 does not number rows, 25.8 gives -1, fails or dies. 26.7 numbers the rows of text wrongly if several threads
# parse the text.
ROWS_SINCE = (26, 7)


def parse_provenance(name: str, value: object) -> dict[str, Origin]:
    """Parse a mapping of column names to what a column can say.

    :raises ConfigError: for anything else.
    """
    given = parse_items(name, parse_literal(name, value), '{"source_file": "path"}')
    return {column: parse_choice(f"{name}[{column!r}]", origin, Origin) for column, origin in given}


def new_columns(provenance: Provenance) -> tuple[NewColumn, ...]:
    """The columns for a new table."""
    return tuple(NewColumn(name=name, type=_TYPES[origin], is_provenance=True) for name, origin in provenance.items())


def map_provenance(provenance: Provenance) -> tuple[MappedColumn, ...]:
    """The columns in the SELECT list of a load."""
    return tuple(MappedColumn(target=name, expression=_EXPRESSIONS[origin]) for name, origin in provenance.items())


def is_provenance(column: MappedColumn) -> bool:
    """Whether a column of a SELECT list says where a row came from; the files have no value for the column."""
    return column.expression in _EXPRESSIONS.values()


def without_provenance(target: TargetSpec, provenance: Provenance) -> TargetSpec:
    """The columns of the table to be filled from the files."""
    return replace(target, columns=tuple(column for column in target.columns if column.name not in provenance))


def check_columns(target: TargetSpec, provenance: Provenance, *, add_columns: str) -> None:
    """Check that the table has the columns.

    :param add_columns: the statement to add the missing columns, and where to run the statement.
    :raises TargetError: if the table lacks a column, or has a column with a wrong type.
    """
    known = {column.name: column for column in target.columns}
    if lacking := [name for name in provenance if name not in known]:
        raise TargetError(
            "provenance-columns-missing",
            f"provenance fills the columns {', '.join(map(show_name, lacking))}, which {target.name} lacks; run"
            f" {add_columns}: earlier rows get an empty value",
        )
    for name, origin in provenance.items():
        column, fitting = known[name], _FITTING[origin]
        if not column.is_insertable:
            raise TargetError(
                "columns-not-stored",
                f"provenance fills {name!r}, which {target.name} computes itself ({column.default_kind}); name"
                " another column",
            )
        if parse_type(base_type(column.type))[0] not in fitting:
            raise TargetError(
                "provenance-type-wrong",
                f"column {name!r} of {target.name} is {column.type}, and provenance fills it with"
                f" {origin.value!r}, which needs {' or '.join(fitting)}; change its type, or name another column",
            )


def check_filled_once(provenance: Provenance, others: Mapping[str, Collection[str]]) -> None:
    """Check that nothing else fills the columns.

    :param others: argument → the columns filled by the argument.
    :raises ConfigError: if another argument fills a column, too.
    """
    for argument, names in others.items():
        if twice := [name for name in provenance if name in names]:
            raise ConfigError(
                "arguments-contradict",
                f"{argument} and provenance both fill the column {twice[0]!r}; remove one of them",
            )


def missing_columns(target: TargetSpec, provenance: Provenance) -> list[NewColumn]:
    """The columns missing in the table."""
    known = target.column_types
    return [column for column in new_columns(provenance) if column.name not in known]


def check_numbered(provenance: Provenance, data_format: FileFormat) -> None:
    """Check that the rows of the files have numbers, if a column is to have the numbers.

    :raises ConfigError: if the rows have none.
    """
    if Origin.ROW in provenance.values() and not data_format.numbers_rows:
        raise ConfigError(
            "provenance-not-possible",
            f"provenance fills {_numbered(provenance)!r} with the row of the file, and ClickHouse numbers only the"
            f" rows of Parquet files reliably: these are {data_format.name}; leave that column out",
        )


def check_numbers_rows(provenance: Provenance, server_version: tuple[int, int]) -> None:
    """Check that the servers number the rows of files, if a column is to have the numbers.

    :raises ConfigError: if the servers do not.
    """
    if Origin.ROW in provenance.values() and server_version < ROWS_SINCE:
        version, since = map(show_version, (server_version, ROWS_SINCE))
        raise ConfigError(
            "provenance-not-possible",
            f"provenance fills {_numbered(provenance)!r} with the row of the file, and a node of the cluster runs"
            f" ClickHouse {version}, which does not number rows; leave that column out, or upgrade to {since}",
        )


def _numbered(provenance: Provenance) -> str:
    return next(name for name, origin in provenance.items() if origin is Origin.ROW)


def check_not_hidden(provenance: Provenance, in_files: Collection[str]) -> None:
    """Check that the files have no column with the name of ClickHouse's own column for where a row came from.

    :raises ConfigError: if the files have such a column: its values would be taken for the row's origin.
    """
    for name, origin in provenance.items():
        if (virtual := _VIRTUAL.get(origin)) in in_files:
            raise ConfigError(
                "provenance-not-possible",
                f"the files have a column {virtual!r}, and it hides what ClickHouse itself calls so, with which"
                f" provenance fills {name!r}; leave {name!r} out of provenance, or rename the column in the files",
            )


def names_of(provenance: Provenance, origin: Origin) -> Sequence[str]:
    """The columns for one origin."""
    return [name for name, one in provenance.items() if one is origin]
