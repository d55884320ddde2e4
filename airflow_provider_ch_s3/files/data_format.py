"""How the files of a load are written: the format, as given by the user, and the details of CSV files."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_ch_s3.common.declared import FLAG, SQL, TEXT, TEXTS, Value, count, declared, one_of
from airflow_provider_ch_s3.errors import ConfigError

DELIMITER_SETTING = "format_csv_delimiter"
CSV_SKIP_SETTING, TSV_SKIP_SETTING = "input_format_csv_skip_first_lines", "input_format_tsv_skip_first_lines"
CSV_END_SETTING = "input_format_csv_skip_trailing_empty_lines"
TSV_END_SETTING = "input_format_tsv_skip_trailing_empty_lines"
TSV_OF_WINDOWS_SETTING = "input_format_tsv_crlf_end_of_line"
TRIM_SETTING = "input_format_csv_trim_whitespaces"
DELIMITERS = ";\t|"
_QUOTES = ('"', "'", "")


@dataclass(frozen=True, repr=False)
class Format(Value):
    """How files are written.

    :param format: ClickHouse's name, such as ``Parquet``; None: inferred from the file names.
    :param compression: ClickHouse's name of the compression, such as ``gz``; None: inferred from the file names.
    :param structure: columns of the files as ``name Type, …``; None: inferred from the files and the table.
    """

    name: ClassVar[str] = "format"
    format: str | None = declared(TEXT, None, kw_only=False)
    compression: str | None = declared(TEXT, None)
    structure: str | None = declared(SQL, None)


@dataclass(frozen=True, repr=False)
class Csv(Value):
    """How CSV files are written.

    :param delimiter: one character between fields; None to guess the delimiter from the first lines if commas
        separate nothing.
    :param quote: around fields: ``"``, ``'``, or '' if quotes are ordinary characters.
    :param escape: what precedes a quote within a text: '' for a second quote, or a backslash, as Spark writes.
    :param header: whether the first line names the columns; None if ClickHouse is to find out.
    :param skip_lines: number of lines at the beginning of each file, before the header, not to be read.
    :param encoding: such as ``latin-1`` or ``windows-1252``.
    :param null_words: words for a missing value, in addition to an empty field; in text only if the column is
        Nullable.
    :param trim: remove spaces around a field without quotes, and spaces before a quote.
    :param compression: ClickHouse's name of the compression, such as ``gz``; None: inferred from the file names.
    :param structure: columns of the files as ``name Type, …``; None: inferred from the files and the table.
    """

    name: ClassVar[str] = "csv"
    delimiter: str | None = declared(TEXT, None)
    quote: str = declared(TEXT, '"')
    escape: str = declared(TEXT, "")
    header: bool | None = declared(FLAG, None)
    skip_lines: int = declared(count(), 0)
    encoding: str = declared(TEXT, "utf-8")
    null_words: Sequence[str] = declared(TEXTS, ())
    trim: bool = declared(FLAG, default=False)
    compression: str | None = declared(TEXT, None)
    structure: str | None = declared(SQL, None)

    def check(self, name: str) -> None:
        """:raises ConfigError: if ClickHouse does not read files written like this."""

        def refuse(field: str, remedy: str) -> ConfigError:
            return ConfigError("argument-invalid", f"{name}=Csv(…) has {field}={getattr(self, field)!r}; {remedy}")

        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in "\"'\n\r"):
            raise refuse("delimiter", "give one character, such as ';'")
        if self.quote not in _QUOTES:
            raise refuse("quote", "ClickHouse reads \" and '; give one of them, or ''")
        try:
            encoding = codecs.lookup(self.encoding).name
        except LookupError as error:
            raise refuse("encoding", "give the name of one, such as 'latin-1'") from error
        if re.match("utf-?(16|32)", encoding):
            raise refuse("encoding", "ClickHouse finds no lines in it; rewrite the files as UTF-8")
        if self.escape not in ("", "\\"):
            raise refuse("escape", "give a backslash, or '' for quotes that are doubled")
        if self.escape and (self.quote != '"' or self.skip_lines or self.trim or not self.is_utf8):
            raise refuse("escape", "it goes together with delimiter, header and null_words only")

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")

    @property
    def settings(self) -> dict[str, str | int]:
        """The differences from ClickHouse's defaults, as settings of ClickHouse."""
        found: dict[str, str | int] = {}
        if self.delimiter not in (None, ","):
            found[DELIMITER_SETTING] = str(self.delimiter)
        if self.delimiter in ("\t", " "):
            found["input_format_csv_allow_whitespace_or_tab_as_delimiter"] = 1  # otherwise they are trimmed
        if self.quote != '"':
            found["format_csv_allow_double_quotes"] = 0
        if self.quote == "'":
            found["format_csv_allow_single_quotes"] = 1
        if self.skip_lines:
            found[CSV_SKIP_SETTING] = self.skip_lines
        if self.trim:
            found[TRIM_SETTING] = 1
        if self.header is False:
            found["input_format_csv_detect_header"] = 0
        return found

    def line_settings(self, delimiter: str, field_count: int) -> dict[str, str | int]:
        """Settings for lines with escapes, unknown to ClickHouse's CSV parser: a regular expression splits a line."""
        field = rf'''("(?:[^"\\]|\\.)*"|[^"{re.escape(delimiter)}]*)'''
        line = re.escape(delimiter).join([field] * field_count)
        return {"format_regexp": rf"{line}\r?", "format_regexp_escaping_rule": "Raw"}

    @property
    def format(self) -> str | None:
        """ClickHouse's name of the format; None if ClickHouse itself finds out whether there is a header."""
        if self.header is None:
            return None
        return "CSVWithNames" if self.header else "CSV"


def find_rivals(lines: Sequence[str]) -> list[str]:
    """Return the marks that separate each line into as many fields as commas do, the same number for all lines."""
    bare = [re.sub(r'"(?:[^"]|"")*"', "", line) for line in lines if line]
    counts = {mark: {line.count(mark) for line in bare} for mark in f",{DELIMITERS}"}
    return [mark for mark in DELIMITERS if len(counts[mark]) == 1 and counts[mark] == counts[","] != {0}]


def guess_delimiter(lines: Sequence[str]) -> str:
    """Guess the delimiter: the mark that all lines contain equally often, outside of quotes; '' if none does."""
    bare = [re.sub(r'"(?:[^"]|"")*"', "", line) for line in lines if line]
    counts = {mark: Counter(line.count(mark) for line in bare) for mark in DELIMITERS}
    same = {mark: next(iter(found)) for mark, found in counts.items() if len(found) == 1}
    best = max(same, key=lambda mark: same[mark], default="")
    return best if best and same[best] else ""


DATA_FORMAT = one_of(
    Format,
    Csv,
    # A text that begins like a dict is a template, or a dict that a template has turned into a text.
    short=lambda value: Format(value) if isinstance(value, str) and not value.lstrip().startswith("{") else None,
    remedy="give the name of a format, such as 'Parquet', or Format(…), or Csv(…)",
)
