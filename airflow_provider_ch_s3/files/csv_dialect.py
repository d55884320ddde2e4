"""How CSV files are written where they are not as ClickHouse expects them."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_ch_s3.common.arguments import build_value, refuse_argument
from airflow_provider_ch_s3.errors import ConfigError

DELIMITER_SETTING = "format_csv_delimiter"
CSV_SKIP_SETTING, TSV_SKIP_SETTING = "input_format_csv_skip_first_lines", "input_format_tsv_skip_first_lines"
TRIM_SETTING = "input_format_csv_trim_whitespaces"
DELIMITERS = ";\t|"
_QUOTES = ('"', "'", "")


@dataclass(frozen=True, kw_only=True)
class CsvDialect:
    """How CSV files are written.

    :param delimiter: one character between fields; None to guess it from the first lines if commas separate none.
    :param quote: around fields: ``"``, ``'``, or '' if quotes are ordinary characters.
    :param escape: what precedes a quote within a text: '' for another quote, or a backslash, as Spark writes it.
    :param header: whether the first line names the columns; None if ClickHouse is to find out.
    :param skip_lines: lines at the beginning of each file, before the header, that are not read.
    :param encoding: such as ``latin-1`` or ``windows-1252``.
    :param null_words: words that stand for a missing value, besides an empty field; in text only where the column is
        Nullable.
    :param trim: spaces around a field that is not in quotes do not belong to it, nor those before a quote.
    """

    delimiter: str | None = None
    quote: str = '"'
    escape: str = ""
    header: bool | None = None
    skip_lines: int = 0
    encoding: str = "utf-8"
    null_words: Sequence[str] = ()
    trim: bool = False

    def __post_init__(self) -> None:
        """:raises ConfigError: if a value is wrong."""
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in "\"'\n\r"):
            raise _refuse("delimiter", self.delimiter, "give one character, such as ';'")
        if self.quote not in _QUOTES:
            raise _refuse("quote", self.quote, "ClickHouse reads \" and '; give one of them, or ''")
        if isinstance(self.skip_lines, bool) or not isinstance(self.skip_lines, int) or self.skip_lines < 0:
            raise _refuse("skip_lines", self.skip_lines, "give a number of lines")
        if self.header not in (None, True, False):
            raise _refuse("header", self.header, "give True or False")
        if not isinstance(self.trim, bool):
            raise _refuse("trim", self.trim, "give True or False")
        if isinstance(self.null_words, str):
            raise _refuse("null_words", self.null_words, f"write a list: [{self.null_words!r}]")
        try:
            name = codecs.lookup(self.encoding).name
        except LookupError as error:
            raise _refuse("encoding", self.encoding, "give the name of one, such as 'latin-1'") from error
        if re.match("utf-?(16|32)", name):
            raise _refuse("encoding", self.encoding, "ClickHouse finds no lines in it; rewrite the files as UTF-8")
        self._check_escape()

    def _check_escape(self) -> None:
        if self.escape not in ("", "\\"):
            raise _refuse("escape", self.escape, "give a backslash, or '' for quotes that are doubled")
        if self.escape and (self.quote != '"' or self.skip_lines or self.trim or not self.is_utf8):
            raise _refuse("escape", self.escape, "it goes together with delimiter, header and null_words only")

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")

    @property
    def settings(self) -> dict[str, str | int]:
        """What differs from ClickHouse's defaults, as its settings."""
        found: dict[str, str | int] = {}
        if self.delimiter not in (None, ","):
            found[DELIMITER_SETTING] = str(self.delimiter)
        if self.delimiter == "\t":
            found["input_format_csv_allow_whitespace_or_tab_as_delimiter"] = 1  # else it is trimmed
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
        """Settings with which ClickHouse takes apart lines that its CSV parser does not: it knows no escapes."""
        field = rf'''("(?:[^"\\]|\\.)*"|[^"{re.escape(delimiter)}]*)'''
        line = re.escape(delimiter).join([field] * field_count)
        return {"format_regexp": rf"{line}\r?", "format_regexp_escaping_rule": "Raw"}

    @property
    def data_format(self) -> str | None:
        """ClickHouse's name of the format; None if it finds out itself whether there is a header."""
        if self.header is None:
            return None
        return "CSVWithNames" if self.header else "CSV"


def parse_csv_dialect(value: object) -> CsvDialect:
    """Parse the argument ``csv_dialect``.

    :param value: None, a :class:`CsvDialect`, or a mapping of its fields.
    :raises ConfigError: if it is anything else, or a field has a wrong value.
    """
    if value is None:
        return CsvDialect()
    if isinstance(value, CsvDialect):
        return value
    if not isinstance(value, Mapping):
        raise refuse_argument("csv_dialect", value, "give CsvDialect(delimiter=';'), for example")
    return build_value("csv_dialect", CsvDialect, value)


def find_rivals(lines: Sequence[str]) -> list[str]:
    """Return the marks that separate each line into as many fields as commas do, the same number for all lines."""
    bare = [re.sub(r'"(?:[^"]|"")*"', "", line) for line in lines if line]
    counts = {mark: {line.count(mark) for line in bare} for mark in f",{DELIMITERS}"}
    return [mark for mark in DELIMITERS if len(counts[mark]) == 1 and counts[mark] == counts[","] != {0}]


def guess_delimiter(lines: Sequence[str]) -> str:
    """Guess what separates the fields: what each line has the same number of, outside of quotes; '' if nothing."""
    bare = [re.sub(r'"(?:[^"]|"")*"', "", line) for line in lines if line]
    counts = {mark: Counter(line.count(mark) for line in bare) for mark in DELIMITERS}
    same = {mark: next(iter(found)) for mark, found in counts.items() if len(found) == 1}
    best = max(same, key=lambda mark: same[mark], default="")
    return best if best and same[best] else ""


def _refuse(name: str, value: object, remedy: str) -> ConfigError:
    return ConfigError(f"csv_dialect has {name}={value!r}; {remedy}")
