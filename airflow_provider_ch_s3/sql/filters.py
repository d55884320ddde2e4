"""Quoting filters: the only way for a value to enter SQL text.

A template that prints a bare value fails with ``UnquotedValueError``. The filters return ``Sql``, the only type
allowed in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.clickhouse.expressions import parse_expression, split_expressions
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.table.target import TableName


class Sql(str):
    """Text that is safe to print into a statement."""

    __slots__ = ()


class UnquotedValueError(TypeError):
    """A template printed a value without a filter."""


_LINE_LENGTH = 110

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_ESCAPES_WITHIN = {quote: str.maketrans({**_ESCAPES, quote: f"\\{quote}"}) for quote in "'`"}


def _quote(text: str, quote: str) -> Sql:
    return Sql(f"{quote}{text.translate(_ESCAPES_WITHIN[quote])}{quote}")


def literal(value: str | bool | int | float) -> Sql:
    """Quote a string, or print a number or boolean, as a ClickHouse literal.

    :raises UnquotedValueError: for any other type.
    """
    match value:
        case bool():
            return Sql("1" if value else "0")
        case int() | float():
            return Sql(repr(value))
        case str():
            return _quote(value, "'")
    raise UnquotedValueError(f"cannot write {type(value).__name__} as an SQL literal")


def short_identifier(name: str) -> str:
    """Quote a name only if necessary, as people would write it."""
    is_plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.lower() not in _WORDS
    return name if is_plain else identifier(name)


# Names that are read as something else without quotes, by ClickHouse or by our checks of expressions.
_WORDS = frozenset(
    {
        *("all", "and", "as", "between", "case", "distinct", "div", "except", "explain", "false", "fetch", "final"),
        *("format", "from", "group", "having", "ilike", "in", "inf", "intersect", "into", "is", "join", "like"),
        *("limit", "mod", "nan", "not", "null", "offset", "or", "order", "prewhere", "qualify", "regexp", "sample"),
        *("select", "settings", "top", "true", "union", "using", "values", "where", "window", "with", "xor"),
    }
)


def identifier(name: str) -> Sql:
    """Quote one identifier: a database, a table, a column, a named collection.

    :raises ConfigError: if the name is empty; ClickHouse has no empty identifiers.
    """
    if not name:
        raise ConfigError(
            "name-invalid", "an empty name cannot be an SQL identifier; give the database, table or column a name"
        )
    return _quote(name, "`")


def identifiers(names: Iterable[str]) -> Sql:
    """Quote a list of identifiers, separated by commas."""
    return Sql(", ".join(identifier(name) for name in names))


def folded(items: Iterable[Sql]) -> Sql:
    """Separate quoted items by commas, with as many in a line as fit."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) < _LINE_LENGTH:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return Sql(",\n    ".join(lines))


def folded_identifiers(names: Iterable[str]) -> Sql:
    """Quote a list of identifiers, with as many in a line as fit."""
    return folded(identifier(name) for name in names)


def literals(values: Iterable[str | int | float]) -> Sql:
    """Quote a list of literals, separated by commas."""
    return Sql(", ".join(literal(value) for value in values))


def tuples(rows: Iterable[tuple[str | int | float, ...]]) -> Sql:
    """Quote a list of tuples of literals, separated by commas."""
    return Sql(", ".join(f"({literals(row)})" for row in rows))


def is_among(values: Sequence[str]) -> Sql:
    """Print a comparison of the preceding expression with some values; a single value is compared with ``=``, for
    look-ups.
    """
    return Sql(f"= {literal(values[0])}" if len(values) == 1 else f"IN ({literals(values)})")


def assignments(settings: Mapping[str, str | int | float]) -> Sql:
    """Print the assignments of a SETTINGS clause, with as many in a line as fit."""
    return folded(Sql(f"{setting_name(name)} = {literal(value)}") for name, value in settings.items())


_PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def setting_name(name: str) -> Sql:
    """Check the name of a setting: the SETTINGS clause does not allow quoted names.

    :raises ConfigError: if the name is not a plain word.
    """
    if not _PLAIN_WORD.fullmatch(name):
        raise ConfigError(
            "setting-unknown", f"{name!r} is not the name of a ClickHouse setting; use only letters, digits and _"
        )
    return Sql(name)


def parameter(name: str) -> Sql:
    """Print the placeholder of a String that is sent separately from the statement.

    :raises ConfigError: if the name is not a plain word.
    """
    if not _PLAIN_WORD.fullmatch(name):
        raise ConfigError(
            "name-invalid", f"{name!r} is not the name of a query parameter; use only letters, digits and _"
        )
    return Sql(f"{{{name}:String}}")


def expression(text: str) -> Sql:
    """Print one flat SQL expression that a user wrote.

    :raises ConfigError: if the text has several expressions, or contains a subquery.
    """
    return Sql(parse_expression(text))


def column_type(text: str) -> Sql:
    """Print the type of a column, perhaps with a default or codec.

    :raises ConfigError: if the text has more than one item.
    """
    if len(split_expressions(text)) != 1:
        raise ConfigError(
            "type-invalid", f"{text!r} is not the type of one column; write a type of ClickHouse, such as 'UInt32'"
        )
    return Sql(text.strip())


def table_name(name: TableName) -> Sql:
    """Quote a table with the table's database."""
    return Sql(f"{identifier(name.database)}.{identifier(name.table)}")


def json_rows(rows: Iterable[Mapping[str, Any]]) -> Sql:
    """Print rows as JSONEachRow, the data of an INSERT."""
    return Sql("\n".join(json.dumps(row) for row in rows))


def server_sql(text: str) -> Sql:
    """Print SQL that came from the server itself: a view's query, a key."""
    return Sql(text)


FILTERS = (
    *(literal, literals, identifier, identifiers, folded_identifiers, tuples, is_among, assignments, parameter),
    *(expression, column_type, table_name, json_rows),
)


def require_quoted(value: Any) -> Any:
    """Jinja's ``finalize``: let quoted text through, and nothing else."""
    if isinstance(value, Sql):
        return value
    raise UnquotedValueError(f"a template printed an unquoted {type(value).__name__}; pipe it through a filter")
