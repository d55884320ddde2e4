"""Which column of the files goes into which column of the table, and how.

A value must arrive as it was or not at all. ClickHouse's own conversion wraps 70000 into a UInt16 as 4464 and
cuts 3.7 to 3 without a word, so narrowing conversions go through ``accurateCast``, which fails instead. Its
parsers of text wrap too, so ``source.type_text_columns`` has them read wider numbers than the table holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.source import TYPED_FORMATS, FileColumn
from airflow_provider_ch_s3.target import TableColumn, TargetSpec


@dataclass(frozen=True, kw_only=True)
class MappedColumn:
    """One item of the SELECT list.

    Exactly one of ``source`` (a column of the files) and ``expression`` (the user's SQL) is set.

    :param cast_type: type for ``accurateCast``; '' to leave the conversion to the INSERT.
    :param is_nullable_text: every conversion of Nullable(String) makes NULL of a text that is no number, time, …
        (seen on 26.7), so that NULL has to be told apart before.
    """

    target: str
    source: str = ""
    expression: str = ""
    cast_type: str = ""
    is_nullable_text: bool = False


def map_columns(
    file_columns: Sequence[FileColumn],
    target: TargetSpec,
    *,
    data_format: str,
    columns: Sequence[str] | None = None,
    select: Mapping[str, str] | None = None,
) -> tuple[MappedColumn, ...]:
    """Match the columns by name.

    :param columns: the table's columns to load; None for all.
    :param select: table column → flat SQL expression over the columns of the files. With it, columns of the
        files that are not named may go unused: the expressions say what is wanted.
    :raises TargetError: if a column has no counterpart on the other side, or the types cannot be converted.
    :raises ConfigError: if ``columns`` or ``select`` name a column that the table lacks or computes.
    """
    select = dict(select or {})
    wanted = _wanted_columns(target, columns, select)
    in_files = {column.name: column for column in file_columns}
    missing = [c.name for c in wanted if c.is_required and c.name not in in_files and c.name not in select]
    if missing:
        raise TargetError(
            f"{target.name} has the columns {_names(missing)} without a DEFAULT, and the files have"
            f" no such columns (they have {_names(in_files)}); give them a DEFAULT, name what to load with"
            " columns=[…], or compute them with select={…}"
        )
    in_table = {column.name for column in wanted}
    surplus = [c for c in file_columns if c.name not in in_table]
    if surplus and columns is None and not select:
        raise TargetError(
            f"the files have the columns {_names(_describe(c) for c in surplus)}, and {target.name} has no such"
            " columns; add them to the table, or name what to load with columns=[…]"
        )
    mapped = []
    for column in wanted:
        if column.name in select:
            mapped.append(MappedColumn(target=column.name, expression=select[column.name]))
        elif column.name in in_files:
            mapped.append(_map_column(in_files[column.name], column, data_format, target))
    return tuple(mapped)


def _wanted_columns(
    target: TargetSpec, columns: Sequence[str] | None, select: Mapping[str, str]
) -> list[TableColumn]:
    known = {column.name: column for column in target.columns}
    for argument, names in (("columns", columns or ()), ("select", select)):
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"{argument} names {name!r}, and {target.name} has no such column; it has {_names(known)}"
                )
            if not known[name].is_insertable:
                raise ConfigError(
                    f"{argument} names {name!r}, which {target.name} computes itself"
                    f" ({known[name].default_kind}); leave it out"
                )
    chosen = set(columns) | set(select) if columns is not None else set(known)
    return [column for column in target.columns if column.name in chosen and column.is_insertable]


def _map_column(source: FileColumn, column: TableColumn, data_format: str, target: TargetSpec) -> MappedColumn:
    plain = MappedColumn(target=column.name, source=source.name)
    base = _base_type(column.type)
    if source.in_path:
        # its type is what the server guesses from the value: Int64 for hour=300
        return replace(plain, cast_type=base) if _integer_range(base) else plain
    if data_format in TYPED_FORMATS and not is_convertible(source.type, column.type):
        raise TargetError(
            f"column {column.name!r} is {source.type} in the files and {column.type} in {target.name}, and"
            f" there is no conversion; change the table, or convert it with"
            f" select={{{column.name!r}: '…'}}"
        )
    conversion = _family(_base_type(source.type)), _family(base)
    if "Nullable(" in source.type and conversion[0] == "string" and conversion in _CONVERTIBLE:
        return replace(plain, cast_type=base, is_nullable_text=True)
    if not is_narrowing(source.type, column.type):
        return plain
    return replace(plain, cast_type=f"Nullable({base})" if "Nullable(" in source.type else base)


_INTEGER = re.compile(r"(?P<unsigned>U?)Int(?P<bits>\d+)")
_FAMILIES = (
    ("number", r"U?Int\d+|B?Float\d+|Decimal\d*\b.*|Bool"),
    ("string", r"String|FixedString\(.*|Enum\d*\(.*"),
    ("time", r"Date(Time)?(32|64)?\b.*"),
    ("uuid", r"UUID"),
    ("address", r"IPv[46]"),
)
# Beside conversions inside a family: text is parsed row by row by the server, everything
# scalar can be written as text, and a number of days or seconds is a time and the reverse.
_CONVERTIBLE = {
    ("string", "number"),
    ("string", "time"),
    ("string", "uuid"),
    ("string", "address"),
    ("number", "string"),
    ("time", "string"),
    ("uuid", "string"),
    ("address", "string"),
    ("number", "time"),
    ("time", "number"),
    ("number", "address"),
}


def is_convertible(source_type: str, target_type: str) -> bool:
    """Whether ClickHouse has a conversion from one type to the other (a value may still not fit)."""
    source, target = _base_type(source_type), _base_type(target_type)
    if source == target:
        return True
    if _has_fraction(source) and _integer_range(target) is not None:
        return False  # accurateCast cuts it off, too
    pair = _family(source), _family(target)
    return pair[0] == pair[1] or pair in _CONVERTIBLE


def is_narrowing(source_type: str, target_type: str) -> bool:
    """Whether ClickHouse's plain conversion would change a number or time that does not fit, silently.

    Numbers in text are among them: '70000' becomes 4464 in a UInt16, too.
    """
    source, target = _base_type(source_type), _base_type(target_type)
    source_range, target_range = _integer_range(source), _integer_range(target)
    if re.match(r"DateTime\b", target) and source_range:
        target_range = (0, 2**32 - 1)  # seconds
    elif re.match(r"Date(Time)?\b", target):
        return re.match(r"Date32|DateTime64", source) is not None  # fails by date_time_overflow_behavior
    if target_range is None:
        return False
    if re.match(r"B?Float|Decimal|String|FixedString", source):
        return True
    return source_range is not None and not (
        target_range[0] <= source_range[0] and source_range[1] <= target_range[1]
    )


def _base_type(type_name: str) -> str:
    match = re.fullmatch(r"(?:Nullable|LowCardinality)\((.*)\)", type_name, re.DOTALL)
    return _base_type(match[1]) if match else type_name


def _family(base_type: str) -> str:
    for name, pattern in _FAMILIES:
        if re.fullmatch(pattern, base_type, re.DOTALL):
            return name
    # Array, Tuple, Map, JSON, Variant, Point…: like goes to like, and the server checks the inside
    return base_type.split("(", maxsplit=1)[0]


def _has_fraction(base_type: str) -> bool:
    match = re.fullmatch(r"Decimal\d*\((?:\d+,\s*)?(?P<scale>\d+)\)", base_type)
    return match is not None and match["scale"] != "0"


def _integer_range(base_type: str) -> tuple[int, int] | None:
    match = _INTEGER.fullmatch(base_type)
    if match is None:
        return None
    bits = int(match["bits"])
    return (0, 2**bits - 1) if match["unsigned"] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _describe(column: FileColumn) -> str:
    return f"{column.name} (from the path)" if column.in_path else column.name


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
