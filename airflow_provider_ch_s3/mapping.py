"""Which column of the files goes into which column of the table, and how.

A value must arrive as it was or not at all. ClickHouse's own conversion wraps 70000 into a UInt16 as 4464 and
cuts 3.7 to 3 without a word, so narrowing conversions go through ``accurateCast``, which fails instead. What it
changes too is refused. Parsers of text wrap and saturate, so ``column_types.text_type`` has them read wider numbers
and times than the table holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_ch_s3.column_types import base_type, decimal_digits, family, integer_range, wide_time
from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.names import show_name
from airflow_provider_ch_s3.source import FileColumn
from airflow_provider_ch_s3.target import TableColumn, TargetSpec


@dataclass(frozen=True, kw_only=True)
class MappedColumn:
    """One item of the SELECT list.

    Exactly one of ``source`` (a column of the files) and ``expression`` (the user's SQL) is set.

    :param cast_type: type for ``accurateCast``; '' to leave the conversion to the INSERT.
    :param via_type: type to read a text as before that, which holds what ``cast_type`` does not; '' for none.
    :param is_nullable_text: every conversion of Nullable(String) makes NULL of a text that is no number, time, …
        (seen on 26.7), so that NULL has to be told apart before.
    """

    target: str
    source: str = ""
    expression: str = ""
    cast_type: str = ""
    via_type: str = ""
    is_nullable_text: bool = False


def map_columns(
    file_columns: Sequence[FileColumn],
    target: TargetSpec,
    *,
    columns: Sequence[str] | None = None,
    select: Mapping[str, str] | None = None,
) -> tuple[MappedColumn, ...]:
    """Match the columns by name.

    :param columns: the table's columns to load; None for all.
    :param select: table column → flat SQL expression over the columns of the files. With it, columns of the
        files that are not named may go unused: the expressions say what is wanted.
    :raises TargetError: if a column has no counterpart on the other side, or the types cannot be converted
        without changing values silently.
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
            mapped.append(_map_column(in_files[column.name], column, target))
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


def _map_column(source: FileColumn, column: TableColumn, target: TargetSpec) -> MappedColumn:
    plain = MappedColumn(target=column.name, source=source.name)
    base = base_type(column.type)
    if source.in_path:
        # its type is what the server guesses from the value: Int64 for hour=300
        return replace(plain, cast_type=base) if integer_range(base) else plain
    _check_conversion(source, column, target)
    is_nullable = "Nullable(" in source.type
    conversion = family(base_type(source.type)), family(base)
    via_type = wide_time(base) if conversion[0] == "string" else ""
    if via_type or (is_nullable and conversion[0] == "string" and conversion in _CONVERTIBLE):
        return replace(plain, cast_type=base, via_type=via_type, is_nullable_text=is_nullable)
    if not is_narrowing(source.type, column.type):
        return plain
    return replace(plain, cast_type=f"Nullable({base})" if is_nullable else base)


def _check_conversion(source: FileColumn, column: TableColumn, target: TargetSpec) -> None:
    if not is_convertible(source.type, column.type):
        problem = "there is no conversion"
    elif loss := silent_loss(source.type, column.type):
        problem = f"ClickHouse would silently {loss}"
    else:
        return
    raise TargetError(
        f"column {column.name!r} is {source.type} in the files and {column.type} in {target.name}, and"
        f" {problem}; change the table, or convert it with select={{{column.name!r}: '…'}}"
    )


# Beside conversions inside a family: text is parsed row by row by the server, everything
# scalar can be written as text.
_CONVERTIBLE = {
    ("string", "number"),
    ("string", "time"),
    ("string", "uuid"),
    ("string", "address"),
    ("number", "string"),
    ("time", "string"),
    ("uuid", "string"),
    ("address", "string"),
    ("number", "address"),
}
# ClickHouse converts these, and means something that hardly anyone means.
_MISLEADING = {("number", "time"), ("time", "number")}


def is_convertible(source_type: str, target_type: str) -> bool:
    """Whether ClickHouse has a conversion from one type to the other (a value may still not fit)."""
    source, target = base_type(source_type), base_type(target_type)
    pair = family(source), family(target)
    return pair[0] == pair[1] or pair in _CONVERTIBLE or pair in _MISLEADING


def silent_loss(source_type: str, target_type: str) -> str:
    """What any conversion would change without an error, ``accurateCast`` too (seen on 26.7); '' for nothing."""
    source, target = base_type(source_type), base_type(target_type)
    if (family(source), family(target)) in _MISLEADING:
        return "take one for the other as days or seconds since 1970"
    if target == "Bool" and source != "Bool" and family(source) == "number":
        return "make true of every number but 0"
    if re.match(r"DateTime", source) and re.fullmatch(r"Date(32)?", target):
        return "cut the time of day"
    digits, room = decimal_digits(source), decimal_digits(target)
    if room and re.match(r"B?Float", source):
        return "cut the digits behind the last one that fits"
    if digits and room and (digits[0] > room[0] or digits[1] > room[1]):
        return "cut the digits that do not fit, or fail"
    if digits and digits[1] > 0 and integer_range(target):
        return "cut the fraction"
    return ""


def is_narrowing(source_type: str, target_type: str) -> bool:
    """Whether ClickHouse's plain conversion would change a number or time that does not fit, silently.

    Numbers in text are among them: '70000' becomes 4464 in a UInt16, too.
    """
    source, target = base_type(source_type), base_type(target_type)
    if re.match(r"Date(Time)?\b", target):
        return re.match(r"Date32|DateTime64", source) is not None  # fails by date_time_overflow_behavior
    source_range, target_range = integer_range(source), integer_range(target)
    if target_range is None:
        return False
    if re.match(r"B?Float|Decimal|String|FixedString", source):
        return True
    return source_range is not None and not (
        target_range[0] <= source_range[0] and source_range[1] <= target_range[1]
    )


def _describe(column: FileColumn) -> str:
    return f"{column.name} (from the path)" if column.in_path else column.name


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(show_name, sorted(names)))
