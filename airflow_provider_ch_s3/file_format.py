"""The format of the files: told by their names, and what it means for their columns."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_ch_s3.column_types import text_type
from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.sql.expressions import split_expressions
from airflow_provider_ch_s3.target import TableColumn

FORMATS_BY_EXTENSION = {
    "parquet": "Parquet",
    "orc": "ORC",
    "arrow": "Arrow",
    "avro": "Avro",
    "native": "Native",
    "csv": "CSV",
    "tsv": "TSV",
    "jsonl": "JSONEachRow",
    "ndjson": "JSONEachRow",
    "json": "JSONEachRow",
}
COMPRESSION_EXTENSIONS = frozenset({"gz", "zst", "lz4", "bz2", "xz", "br"})
# The same formats, where the first line names the columns.
_FORMATS_WITH_NAMES = {"CSV": "CSVWithNames", "TSV": "TSVWithNames", "TabSeparated": "TabSeparatedWithNames"}


def infer_format(files: Sequence[SourceFile], data_format: str | None, compression: str | None) -> tuple[str, str]:
    """Tell format and compression from the file names, where the user did not.

    :returns: ClickHouse's names of both.
    :raises SourceError: if a name tells nothing, or the names tell different formats.
    """
    if data_format:
        return data_format, compression or "auto"
    first: tuple[str, SourceFile] | None = None
    for file in files:
        found = _format_of(file.key)
        if found is None:
            raise SourceError(
                f"the format of {file.key!r} cannot be told from its name; give data_format, e.g."
                f" data_format='Parquet' (known endings: {', '.join('.' + e for e in FORMATS_BY_EXTENSION)})"
            )
        if first is None:
            first = found, file
        elif first[0] != found:
            raise SourceError(
                f"{first[1].key!r} looks like {first[0]} and {file.key!r} like {found}; one load reads one"
                " format, so narrow the source or give data_format"
            )
    if first is None:
        raise SourceError("there are no files to tell a format from")
    return first[0], compression or "auto"


def parse_structure(structure: str, in_path: frozenset[str]) -> tuple[FileColumn, ...]:
    """Parse ``name Type, …`` as a user wrote it.

    :raises ConfigError: if a part is not a name and a type.
    """
    columns = []
    for part in split_expressions(structure):
        match = re.fullmatch(r"(?:`(?P<quoted>(?:[^`\\]|\\.)+)`|(?P<name>\w+))\s+(?P<type>.+)", part, re.DOTALL)
        if match is None:
            raise ConfigError(f"structure holds {part!r}; write 'name Type, name Type, …' in ClickHouse's types")
        name = match["name"] or re.sub(r"\\(.)", r"\1", match["quoted"])
        columns.append(FileColumn(name=name, type=match["type"].strip()))
    return (*columns, *(FileColumn(name=n, in_path=True) for n in sorted(in_path)))


def type_text_columns(
    source: SourceSpec,
    described: Sequence[FileColumn],
    table_columns: Sequence[TableColumn],
    *,
    skip: frozenset[str] = frozenset(),
) -> SourceSpec:
    """Give the columns of text files the types of the table: the server only guessed them from some rows.

    Numbers and times become wider ones: ClickHouse's parsers wrap and saturate what does not fit, and the mapping's
    ``accurateCast`` from the wider type fails instead.

    :param skip: columns that the user's expressions convert, so that their guessed type stays.
    :raises SourceError: if the files have no column names and another number of columns than the table.
    """
    in_files = [column for column in described if not column.in_path]
    data_format = source.data_format
    insertable = [column for column in table_columns if column.is_insertable]
    if data_format in _FORMATS_WITH_NAMES and all(re.fullmatch(r"c\d+", c.name) for c in in_files):
        names = [c.name for c in insertable if c.name not in {d.name for d in described if d.in_path}]
        if len(names) != len(in_files):
            raise SourceError(
                f"the {data_format} files have {len(in_files)} columns without names, and the table has"
                f" {len(names)}; give structure='name Type, …' for the columns of the files"
            )
        in_files = [replace(c, name=name) for c, name in zip(in_files, names, strict=True)]
    else:
        data_format = _FORMATS_WITH_NAMES.get(data_format, data_format)
    keeps_empty_text = not data_format.startswith("JSON") or data_format == "JSONAsString"
    types = {c.name: text_type(c.type, keeps_empty_text=keeps_empty_text) for c in insertable if c.name not in skip}
    columns = (
        *(replace(c, type=types.get(c.name, c.type)) for c in in_files),
        *(c for c in described if c.in_path),
    )
    return replace(source, data_format=data_format, columns=columns)


def _format_of(key: str) -> str | None:
    stem, extension = os.path.splitext(key.lower())
    if is_compressed(key):
        extension = os.path.splitext(stem)[1]
    return FORMATS_BY_EXTENSION.get(extension[1:])


def is_compressed(key: str) -> bool:
    """Whether the name of a file ends like that of a compressed one."""
    return os.path.splitext(key.lower())[1][1:] in COMPRESSION_EXTENSIONS
