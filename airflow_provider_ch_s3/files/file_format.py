"""File formats: the properties of each format, and how to infer the format from file names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_provider_ch_s3.errors import ConfigError, SourceError
from airflow_provider_ch_s3.files.data_format import (
    CSV_END_SETTING,
    CSV_SKIP_SETTING,
    TRIM_SETTING,
    TSV_END_SETTING,
    TSV_OF_WINDOWS_SETTING,
    TSV_SKIP_SETTING,
    Csv,
)

_COMPRESSION_EXTENSIONS = frozenset({"gz", "zst", "lz4", "bz2", "xz", "br"})


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A format; for a format missing in ``FORMATS``, only the name is known.

    :param name: ClickHouse's name.
    :param variants: prefix of the names of variants, such as ``CSVWithNames``; '' without variants.
    :param extensions: file name extensions of the format, in lower case.
    :param is_typed: the files contain the types of their columns; otherwise types are guesses.
    :param is_text: values are parsed from text, field by field; ClickHouse may split a file into pieces for parsing.
    :param with_names: the variant whose first line contains the column names; '' if there is none.
    :param may_lack_fields: every row names its columns, and may lack some.
    :param has_null_lists: rows may have NULL in place of an array, map or tuple, for which servers have no type.
    :param has_footers: files end with a list of their columns and rows, and nodes can share the pieces of a file.
    :param is_read_in_parts: a reader seeks the parts it needs; files of most formats are read from the first byte to
        the last.
    :param numbers_rows: servers know the number of each row in a file, however many threads read the file.
    :param missing_columns_setting: the setting that allows files to lack columns; '' if there is none.
    :param first_bytes: how the files begin; empty if unknown.
    :param settings: further settings that concern only some formats.
    """

    name: str
    variants: str = ""
    extensions: tuple[str, ...] = ()
    is_typed: bool = False
    is_text: bool = False
    with_names: str = ""
    may_lack_fields: bool = False
    has_null_lists: bool = False
    has_footers: bool = False
    is_read_in_parts: bool = False
    numbers_rows: bool = False
    missing_columns_setting: str = ""
    first_bytes: bytes = b""
    settings: frozenset[str] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether the rules of a load are made for the values of the format."""
        return self.is_typed or self.is_text

    @property
    def is_csv(self) -> bool:
        """Whether the format is a variant of CSV: fields may have spaces around them, and any delimiter."""
        return self.variants == "CSV"

    @property
    def is_json(self) -> bool:
        """Whether the format is a variant of JSON."""
        return self.variants == "JSON"

    @property
    def is_tsv(self) -> bool:
        """Whether the format is a variant of TSV."""
        return self.variants in ("TSV", "TabSeparated")

    @property
    def is_escaped_tsv(self) -> bool:
        """Whether the format is a variant of TSV with backslashes before some characters of a text."""
        return self.is_tsv and "Raw" not in self.name

    @property
    def tells_null_from_empty(self) -> bool:
        """Whether an empty text is never a NULL, and a NULL never a text."""
        return self.is_json or self.is_escaped_tsv

    @property
    def has_lines(self) -> bool:
        """Whether the files are CSV, TSV or JSON: text that begins like text, and has at least one row."""
        return self.is_csv or self.is_tsv or self.is_json

    @property
    def has_names(self) -> bool:
        """Whether the first line of a file may name the columns."""
        return bool(self.with_names) or "WithNames" in self.name

    def takes(self, setting: str) -> bool:
        """Whether a setting concerns the format; a setting that is not specific to formats concerns all formats."""
        return setting not in FORMAT_SETTINGS or setting in (*self.settings, self.missing_columns_setting)


_PARSING = "input_format_parallel_parsing"
_CSV = frozenset({_PARSING, "input_format_csv_empty_as_default", TRIM_SETTING, CSV_SKIP_SETTING, CSV_END_SETTING})
_TSV = frozenset(
    {_PARSING, "input_format_tsv_empty_as_default", TSV_OF_WINDOWS_SETTING, TSV_SKIP_SETTING, TSV_END_SETTING}
)
JSON_AS_TEXT = ("input_format_json_read_numbers_as_strings", "input_format_json_read_bools_as_strings")
_JSON = frozenset(
    {
        _PARSING,
        *JSON_AS_TEXT,
        "input_format_json_read_bools_as_numbers",
        "input_format_json_defaults_for_missing_elements_in_named_tuple",
        "input_format_json_ignore_unknown_keys_in_named_tuple",
    }
)

# Files that state the types of their columns. The stated types are the writer's: text is parsed as the table's
# columns need, as in all text formats.
STATED_TYPES_SETTINGS = ("input_format_with_types_use_header", "input_format_json_validate_types_from_metadata")
_STATE_TYPES = {
    "CSV": ("CSVWithNamesAndTypes",),
    "TSV": ("TSVWithNamesAndTypes",),
    "TabSeparated": ("TabSeparatedWithNamesAndTypes",),
    "CustomSeparated": ("CustomSeparatedWithNamesAndTypes",),
    "JSONEachRow": (
        "JSON",
        "JSONCompact",
        "JSONColumnsWithMetadata",
        "JSONCompactEachRowWithNamesAndTypes",
        "JSONCompactStringsEachRowWithNamesAndTypes",
    ),
}

_KNOWN = (
    FileFormat(
        name="Parquet",
        first_bytes=b"PAR1",
        is_read_in_parts=True,
        extensions=("parquet",),
        is_typed=True,
        has_footers=True,
        numbers_rows=True,
        missing_columns_setting="input_format_parquet_allow_missing_columns",
        settings=frozenset(
            {
                "input_format_parquet_max_block_size",
                "cluster_table_function_split_granularity",
                "output_format_parquet_row_group_size_bytes",
                "output_format_parquet_date_as_uint16",
                "output_format_parquet_datetime_as_uint32",
            }
        ),
    ),
    FileFormat(
        name="ORC",
        first_bytes=b"ORC",
        is_read_in_parts=True,
        extensions=("orc",),
        is_typed=True,
        missing_columns_setting="input_format_orc_allow_missing_columns",
    ),
    FileFormat(
        name="Arrow",
        first_bytes=b"ARROW1",
        is_read_in_parts=True,
        extensions=("arrow",),
        is_typed=True,
        missing_columns_setting="input_format_arrow_allow_missing_columns",
    ),
    FileFormat(name="ArrowStream", is_typed=True, missing_columns_setting="input_format_arrow_allow_missing_columns"),
    FileFormat(
        name="Avro",
        first_bytes=b"Obj\x01",
        extensions=("avro",),
        is_typed=True,
        has_null_lists=True,
        missing_columns_setting="input_format_avro_allow_missing_fields",
    ),
    FileFormat(name="Native", extensions=("native",), is_typed=True),
    FileFormat(name="RowBinaryWithNamesAndTypes", is_typed=True),
    FileFormat(
        name="CSV", variants="CSV", extensions=("csv",), is_text=True, with_names="CSVWithNames", settings=_CSV
    ),
    FileFormat(
        name="TSV", variants="TSV", extensions=("tsv",), is_text=True, with_names="TSVWithNames", settings=_TSV
    ),
    FileFormat(
        name="TabSeparated",
        variants="TabSeparated",
        is_text=True,
        with_names="TabSeparatedWithNames",
        settings=_TSV,
    ),
    FileFormat(
        name="JSONEachRow",
        variants="JSON",
        extensions=("jsonl", "ndjson", "json"),
        is_text=True,
        may_lack_fields=True,
        has_null_lists=True,
        settings=_JSON,
    ),
    FileFormat(name="JSONAsString", is_text=True, settings=_JSON),
    FileFormat(name="CustomSeparated", variants="CustomSeparated", is_text=True, settings=frozenset({_PARSING})),
    FileFormat(name="LineAsString", variants="LineAsString", is_text=True, settings=frozenset({_PARSING})),
)

FORMATS = (
    *_KNOWN,
    *(
        replace(
            known,
            name=name,
            extensions=(),
            with_names="",
            may_lack_fields=False,
            settings=known.settings.union(STATED_TYPES_SETTINGS),
        )
        for known in _KNOWN
        for name in _STATE_TYPES.get(known.name, ())
    ),
)

MISSING_COLUMNS_SETTINGS = tuple(
    dict.fromkeys(one.missing_columns_setting for one in FORMATS if one.missing_columns_setting)
)

FORMAT_SETTINGS = frozenset(MISSING_COLUMNS_SETTINGS).union(*(one.settings for one in FORMATS))

_BY_EXTENSION = {extension: known.name for known in FORMATS for extension in known.extensions}


def find_format(name: str) -> FileFormat:
    """Return the known format with this name, or a format with nothing but the name."""
    for known in FORMATS:
        if name == known.name:
            return known
    for known in FORMATS:
        if known.variants and name.startswith(known.variants):
            return replace(known, name=name, extensions=(), with_names="")
    return FileFormat(name=name)


def check_dialect(data_format: str, dialect: Csv) -> None:
    """Check that a dialect is given only for CSV files.

    :raises ConfigError: if the files have another format.
    """
    if dialect != Csv() and not find_format(data_format).is_csv:
        raise ConfigError(
            "argument-invalid",
            f"data_format=Csv(…) says how CSV files are written, and these are {data_format}; remove it, or give"
            " data_format='CSV'",
        )


def infer_format(
    keys: Iterable[str], data_format: str | None, compression: str | None, unnamed: str = ""
) -> tuple[str, str]:
    """Infer format and compression from the file names, unless the user gave them.

    :param unnamed: the format of files whose names tell no format; '' if unknown.
    :returns: ClickHouse's names of both.
    :raises SourceError: if a name has no known extension, or the names indicate different formats.
    """
    if data_format:
        return data_format, compression or "auto"
    first: tuple[str, str] | None = None
    for key in keys:
        found = format_of_key(key) or unnamed
        if not found:
            raise SourceError(
                "format-unknown",
                f"the format of {key!r} cannot be inferred from its name; give data_format, such as"
                f" data_format='Parquet' (known extensions: {', '.join('.' + e for e in _BY_EXTENSION)})",
            )
        if first is None:
            first = found, key
        elif first[0] != found:
            raise SourceError(
                "format-wrong",
                f"{first[1]!r} looks like {first[0]} and {key!r} like {found}; one load reads one format, so narrow"
                " the source or give data_format",
            )
    if first is None:
        raise SourceError("no-file-matches", "there are no files to infer a format from")
    return first[0], compression or "auto"


def is_compressed(key: str) -> bool:
    """Whether the file name has the extension of a compressed file."""
    return file_extension(key) in _COMPRESSION_EXTENSIONS


def file_extension(key: str) -> str:
    """The last extension of a file's name, in lower case: ``gz`` for ``a.csv.GZ``."""
    return os.path.splitext(key.lower())[1][1:]


def format_of_key(key: str) -> str | None:
    """The format that the end of a key, or of a glob, tells; None if it tells none."""
    return _BY_EXTENSION.get(file_extension(os.path.splitext(key)[0] if is_compressed(key) else key))
