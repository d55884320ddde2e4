"""Choose the types that the server parses from text, so that no value changes before it can be checked."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ch_s3.column_types import base_type, is_nullable, parsed_type, text_type
from airflow_provider_ch_s3.source import FileColumn, SourceSpec


def read_text_strictly(source: SourceSpec, *, is_given: bool) -> SourceSpec:
    """Have text parsed as types that hold every value, and converted to the columns' own types by our rules.

    :param is_given: the user gave the types, which may be too narrow for the values.
    """
    if not source.is_text:
        return source
    return replace(source, columns=tuple(c if c.in_path else _read_strictly(c, is_given) for c in source.columns))


def _read_strictly(column: FileColumn, is_given: bool) -> FileColumn:
    kind = wide = column.type
    if is_given:
        wide = text_type(kind, keeps_empty_text=True)
        kind = f"Nullable({base_type(kind)})" if is_nullable(wide) else kind
    read_as = parsed_type(wide)
    return replace(column, type=kind, read_as=read_as if read_as != kind else "")
