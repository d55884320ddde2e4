"""Explain a server's error in terms of a load: the value and the column that do not fit, and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType

from airflow_provider_ch_s3.clickhouse.away import find_away
from airflow_provider_ch_s3.clickhouse.column_types import base_type, is_nullable, scale_and_zone
from airflow_provider_ch_s3.clickhouse.type_table import Kind, kind_of
from airflow_provider_ch_s3.common.text import find_nearest, format_seconds, show_name
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import BadValueError, ChS3Error, ConfigError, ErrorCode, ServerError
from airflow_provider_ch_s3.sql.conversions import AFTER_OPEN_QUOTE
from airflow_provider_ch_s3.sql.filters import short_identifier

log = get_log(__name__)

_CODE = re.compile(r"\(([A-Z][A-Z0-9_]{2,})\)")
_NULL = frozenset({"CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN"})
_BAD_VALUE = frozenset(
    {
        "CANNOT_CONVERT_TYPE",
        "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
        "INCORRECT_DATA",
        "DECIMAL_OVERFLOW",
        "ARGUMENT_OUT_OF_BOUND",
        "UNKNOWN_ELEMENT_OF_ENUM",
        "TOO_LARGE_STRING_SIZE",
    }
)
_UNPARSED = (
    "CANNOT_PARSE",
    "CANNOT_READ_ARRAY_FROM_TEXT",
    "CANNOT_READ_MAP_FROM_TEXT",
    "UNEXPECTED_DATA_AFTER_PARSED_VALUE",
)
_BROKEN = frozenset({"INCORRECT_DATA"})
"""The part of ``_BAD_VALUE`` that a file may cause if it is broken, or still being written."""
_ACCESS = frozenset(
    {
        "S3_ERROR",
        "AUTHENTICATION_FAILED",
        "NETWORK_ERROR",
        "SOCKET_TIMEOUT",
        "DNS_ERROR",
        "POCO_EXCEPTION",
        "NAMED_COLLECTION_DOESNT_EXIST",
        "RECEIVED_ERROR_FROM_REMOTE_IO_SERVER",
        "FILE_DOESNT_EXIST",
    }
)
_EXPRESSION = frozenset(
    {
        "UNKNOWN_IDENTIFIER",
        "UNKNOWN_FUNCTION",
        "SYNTAX_ERROR",
        "ILLEGAL_TYPE_OF_ARGUMENT",
        "ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER",
        "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
        "NO_COMMON_TYPE",
        "TYPE_MISMATCH",
        "ILLEGAL_AGGREGATION",
        "SIZES_OF_ARRAYS_DONT_MATCH",
        "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO",
    }
)
_OF_ANY_FILES = (
    ErrorCode.NUMBER_OF_ARGUMENTS_DOESNT_MATCH,
    ErrorCode.UNKNOWN_FUNCTION,
    ErrorCode.SYNTAX_ERROR,
    ErrorCode.ILLEGAL_AGGREGATION,
    ErrorCode.NOT_AN_AGGREGATE,
)
_OF_EXPRESSIONS = ("CANNOT_PARSE", "ILLEGAL_", "BAD_ARGUMENTS", "UNKNOWN_TYPE", "TOO_FEW_ARG", "TOO_MANY_ARG")
_DIFFERENT_FILES = (
    "the files differ in their columns: load files with the same columns together, or name what to load with"
    " columns=[…]"
)

_MEMORY_OF_THE_SERVER = (
    "the server ran out of memory: load again, because a new plan divides the memory among the loads that run then,"
    " or have each plan with less from the start (max_concurrent_loads or ingest_memory_ratio in the connection)"
)
_MEMORY_OF_THE_QUERY = "raise max_memory_usage, or lower ingest_memory_ratio in the connection to plan with less"

# What servers say after what is wrong: the query itself, where they were, and a guess.
_AFTER_REASON = re.compile(
    r":? In scope |\.? in scope |: [Ww]hile |\. Maybe you meant|\. Required columns| \([A-Z][A-Z0-9_]+\)"
)
_NAMES = (r"identifier [`']?(?P<name>.+?)[`']?\.? [Ii]n scope", r"Missing columns: '(?P<name>.+?)'")
_FUNCTIONS = (r"[Ff]unction(?: with name)? [`'](?P<name>.+?)[`']", r"Unknown function (?P<name>\w+)")
_GUESS = r"Maybe you meant: \['(?P<name>\w+)'"
MAX_NAMED_COLUMNS = 20

# Where the messages of 24.8 to 26.7 name the column, the value, the row and the file; the first match counts.
_COLUMNS = (
    r"to destination column `?(?P<name>[^`:]+?)`?: ",
    r"while reading the value of key (?P<name>.+?)\)",
    r"_path, '/(?P<name>.+?)=\(\[",
    r"name: (?P<name>[^,]+?), type: [^:]+?, parsed text: \S+\s+ERROR",
    r"__table\d+\.(?P<name>`(?:[^`\\]|\\.)+`|\w+)",
    r'Input value -?\d+ of a column "(?P<name>.+?)" ',
    r"read stage: \w+: column: (?P<name>[^:]+): ",
)
_VALUES = (
    r"'(?P<value>[^']*?)(?: does not fit)+'",
    r"Cannot parse date here: (?P<value>.+?)(?: d| do| doe| does| does n| does no| does not| does not f\w*)?: ",
    r"unexpected date: (?P<value>\S+?):? ",
    r"Value (?P<value>\S+) is out of bounds",
    r'garbage after [^:]+: "(?P<value>[^"]*?)(?:<LINE FEED>[^"]*)?"',
    r"Cannot parse string '(?P<value>[^']*)'",
    r"after parsed Array value '\[(?P<value>.*)\]'",
)
# How the parsers say that a row has another number of fields than the columns are.
_UNEVEN = re.compile(
    r"Line \"(?P<line>.*?)\" doesn't match the regexp|Expected end of line|(?:Line feed|End of file) found where"
    r"|expected '(?![{(\[]').{1,3}' before: '(?:\\n|\n)",
    re.DOTALL,
)
# How the parsers of TSV say that a field is empty, or no list, where a list, a map or a tuple has to begin.
_UNOPENED = re.compile(r"Array does not start with '\['|expected '(?P<open>[{(\[])' before: '(?:\\[nrt]|[\n\r\t])")
_UNOPENED_COLUMN = r"name: (?P<name>[^,]+?), type: (?:Array|Map|Tuple)\b[^:]+?, parsed text: <EMPTY>ERROR"
_UNOPENED_FAULT = "is not a list, a map or a tuple"
_UNOPENED_REMEDY = "write the value with its brackets; an empty field is not a list, a map or a tuple: write [] or {}"
# How TSV in a raw format is refused: the setting that the servers advise would not change the texts of such a format.
_OF_WINDOWS = "You have carriage return"
_OF_WINDOWS_FAULT = "ends with a carriage return: the file has line ends of Windows, which raw formats do not know"
_OF_WINDOWS_REMEDY = "use data_format='TSV', or write line feeds alone"
# What the servers say if they cannot guess the type of a column: objects and texts, or a number beyond 64 bits.
_MIXED = re.compile(
    r"Automatically defined type (?P<new>.+?) for column '(?P<name>.+?)' in row (?P<row>\d+) differs from type"
    r" defined by previous rows: (?P<old>.+?)\. You can"
)
_LONG_NUMBER = re.compile(r"extracted from a JSON.*expected ',' before: '(?P<rest>\d+)", re.DOTALL)
_IN_FILE = r"in file/uri (?P<file>.+?)\)"
# The words of the load's own SQL.
_OTHER_FOLDER = re.compile(r"'the value (?P<value>.*?) is not that in the path (?P<path>.*?)' as")
_DAY = re.compile(r"value (?P<day>-?\d+)\b.*? (?:range of type Date32|Date32 range)")
# The words that the load's own SQL appends to a value, as far as the parser of the type shows them.
_APPENDED = re.compile(r"(?: does not fit)+(?=')")
_ROW = r"\(at row (?P<row>\d+)\)"
_FILE = r"in file/uri (?P<file>.+?)\): "


# How Arrow says that a file has a type of a newer Arrow (24.8).
_NEWER_TYPE = "Invalid: Unrecognized type: "
# How a server says that a function failed, and not the parser of a file.
_IN_FUNCTION = "'FUNCTION "
SHOWN_CHARACTERS = 60


@dataclass(frozen=True, kw_only=True)
class BadValue:
    """A value that does not fit the column, as far as known. The text has a line for each question.

    :param column: the column of the table; '' if unknown.
    :param type: the type of the column; '' if unknown.
    :param value: the value as the file has it; None if unknown.
    :param fault: what is wrong with the value; '' if the type of the column does not take the value.
    :param cure: what to do about the fault.
    :param is_held: the value's form is wrong, perhaps not the value: ``007`` does not fit a number.
    :param is_uneven: the row has another number of fields than the columns are.
    :param is_null: the value is missing.
    :param expression: what ``select`` computes the column with; '' for a column of the files.
    :param place: row and file.
    :param reason: the server's words.
    """

    column: str = ""
    type: str = ""
    value: str | None = None
    fault: str = ""
    cure: str = ""
    is_null: bool = False
    is_held: bool = False
    is_uneven: bool = False
    expression: str = ""
    place: str = ""
    reason: str = ""

    def __str__(self) -> str:
        whose = f"column {show_name(self.column)}: " if self.column else ""
        text = self.value.removesuffix(AFTER_OPEN_QUOTE) if self.value else self.value
        value = "a value" if text is None else repr(text[:SHOWN_CHARACTERS])
        lines = (f"{whose}{value} {self._verdict}", self.place, self._remedy, f"ClickHouse: {self.reason}")
        return "\n".join(line for line in lines if line)

    def somewhere_in(self, source: object) -> BadValue:
        """Add the source, unless the place is known."""
        return replace(self, place=self.place or f"in a file of {source}")

    @property
    def is_after_open_quote(self) -> bool:
        """Whether the value is a text that goes on to the end of the file."""
        return self.value is not None and self.value.endswith(AFTER_OPEN_QUOTE)

    @property
    def is_torn(self) -> bool:
        """Whether the text of the file, and not a value, is wrong."""
        return not self.column and "Cannot parse input: expected" in self.reason

    @property
    def _verdict(self) -> str:
        if self.is_after_open_quote:
            return "comes after a quote without an end, as do all rows to the end of the file"
        if self.is_uneven:
            return "is in a row with fewer or more fields than columns"
        if self.is_null:
            return f"is missing or empty, and {self.type or 'the column'} is not Nullable"
        if self.fault:
            return self.fault
        if self.is_torn:
            return "cannot be read: the text is cut off, or is not written as the format says"
        kind = base_type(self.type)
        if self.is_held or kind.startswith(("String", "FixedString")):
            return f"does not fit {kind}"
        return f"is not a valid {kind}" if kind else "does not fit"

    @property
    def _remedy(self) -> str:
        select = repr(self.column or "column")
        if self.is_after_open_quote:
            meant = f"concat({short_identifier(self.column)}, '')"
            kept = f"; if the text is meant so, give select={{{select}: {meant!r}}}" if self.type else ""
            return f"close the quote in the file{kept}"
        if self.is_uneven:
            return (
                "correct the row: an empty line, a delimiter or a quote in a text without quotes around the text, or"
                " rows of another file; or give the delimiter of the files"
            )
        if self.is_null:
            return (
                f"make the column Nullable, give a value with select={{{select}: 'ifNull(…)'}}, or leave such rows"
                " out with where"
            )
        if self.fault:
            return self.cure
        if self.is_torn:
            return "correct the text there, or have the file written again"
        text = self.expression or short_identifier(self.column or "column")
        if expression := _read_local_time(text, self.type, self.value or ""):
            return f"say what the text means with select={{{select}: {expression!r}}}"
        if readings := _read_local_number(text, self.type, self.value or ""):
            selects = [f"select={{{select}: {json.dumps(expression)}}}{when}" for expression, when in readings]
            return f"say what the text means with {', or with '.join(selects)}"
        return f"widen the column, convert the value with select={{{select}: '…'}}, or leave such rows out with where"


def read_bad_value(message: str, types: Mapping[str, str] = MappingProxyType({})) -> BadValue | None:
    """Read what a server says of a value that does not fit; None if the message is not about a value.

    :param types: types of the table's columns, by name.
    """
    code = _code_of(message)
    if _OTHER_FOLDER.search(message) or "Unknown field found" in message or _NEWER_TYPE in message:
        return None
    day = _DAY.search(message)
    unopened = _UNOPENED.search(message)
    is_null = code in _NULL
    is_of_windows = _OF_WINDOWS in message
    if not (day or is_null or is_of_windows or code in _BAD_VALUE or code.startswith(_UNPARSED)):
        return None
    # The server may have read the fields once more, and then names the column where the second reading ended.
    column = _first((_UNOPENED_COLUMN,), message) if unopened else named_column(message)
    uneven = None if "garbage after" in message else _UNEVEN.search(message)
    value, fault, cure = _first(_VALUES, message) or None, "", ""
    if day:
        value, fault, cure = None, f"is {_shown_day(day)}, outside of 1900 to 2299", _far_day(column)
    elif unopened:
        value, fault, cure = "" if unopened["open"] else None, _UNOPENED_FAULT, _UNOPENED_REMEDY
    elif is_of_windows:
        fault, cure = _OF_WINDOWS_FAULT, _OF_WINDOWS_REMEDY
    return BadValue(
        column=column,
        type=types.get(column, ""),
        value=uneven["line"] if uneven else None if is_null else value,
        is_uneven=uneven is not None,
        fault=fault,
        cure=cure,
        is_null=is_null,
        place=_place(message),
        reason=reason_of(message),
    )


def is_computed(message: str) -> bool:
    """Whether a function failed: an expression of the user, or a conversion of the load."""
    return _IN_FUNCTION in message


def is_bad_value(message: str, *, is_typed: bool, is_whole: bool = False) -> bool:
    """Whether a message says that a value does not fit the column, and a retry would fail again.

    :param is_typed: the format has types: if parsing fails, the value is wrong, not a file that is still being
        written.
    :param is_whole: the store gives files only as a whole, and the files are the files of the listing: nothing was
        cut off, and a retry would read the same bytes.
    """
    if read_bad_value(message) is None:
        return False
    code = _code_of(message)
    return is_whole or code in (_NULL | _BAD_VALUE) - _BROKEN or (is_typed and code not in _BROKEN)


def build_failure(
    kind: type[ChS3Error], code: str, text: str, message: str, *, is_typed: bool, is_whole: bool
) -> ChS3Error:
    """Build the error for files that the servers could not read or load; final if no retry can change the outcome.

    :param kind: of the error, if no value is to blame.
    :param code: of the error, if no value is to blame.
    :param text: of the error.
    :param message: the server's own.
    :param is_typed: as for :func:`is_bad_value`.
    :param is_whole: as for :func:`is_bad_value`.
    """
    if is_bad_value(message, is_typed=is_typed, is_whole=is_whole):
        return BadValueError("value-does-not-fit", text)
    if is_removed(message):
        return kind("file-changed-meanwhile", text)
    if _DAMAGED.search(message):
        return kind("file-truncated", text)
    server_code = _code_of(message)
    is_denied = server_code == ErrorCode.ACCESS_DENIED.name
    error = kind("grant-missing" if is_denied else code, text)
    is_violation = server_code == ErrorCode.VIOLATED_CONSTRAINT.name
    error.is_final = is_denied or (is_violation and is_whole) or _NEWER_TYPE in message
    return error


# As the servers say it of a file in S3, or in Azure.
_REMOVED = re.compile(
    r"response code: 404\b|NoSuchKey|key does not exist|BlobNotFound|blob does not exist"
    r"|Object at location .+ not found"
)
REMOVED_REMEDY = (
    "; a file was removed after it was listed: load again, which lists the files again, and have nothing delete or"
    " move files while they are loaded"
)


# What the servers call compressed data that end too early, or cannot be decompressed.
_DAMAGED = re.compile(
    r"\((?:ZLIB_INFLATE|LZMA_STREAM_DECODER|BROTLI_READ|ZSTD_DECODER|LZ4_DECODER|BZIP2_\w+)_FAILED\)"
)
_READ_FROM = r"[Ww]hile reading from: (?P<file>.+?)[:.]? \("


def is_removed(message: str) -> bool:
    """Whether a server did not find a file that the worker had listed."""
    return _REMOVED.search(message) is not None and "NoSuchBucket" not in message


def named_column(message: str) -> str:
    """The column named in a message; '' if none."""
    return _first(_COLUMNS, message).strip("`")


def lacks_memory(message: str) -> bool:
    """Whether a query failed because a node, or the query itself, had no more memory."""
    return "memory limit exceeded" in message.lower() or "MEMORY_LIMIT_EXCEEDED" in message


def is_throttled(message: str) -> bool:
    """Whether a query failed because the store takes fewer requests a second."""
    return re.search(r"Slow ?Down|reduce your request rate|TooManyRequests|ServerBusy", message) is not None


# The name and the UUID of a staging table, which has the constraints of the target.
_STAGED = re.compile(r"table \S*ch_s3_stage_\w+`?(?: \([\da-f-]{36}\))?")


def explain(message: str, types: Mapping[str, str] = MappingProxyType({}), *, endpoint: str = "") -> str:
    """Return the server's message, preceded by the subject and followed by a remedy.

    :param types: types of the table's columns, by name.
    :param endpoint: where the servers look for the files.
    """
    code = _code_of(message)
    if other := _OTHER_FOLDER.search(message):
        return (
            f"a column has the value {other['value']!r} in {other['path']!r}, and the name of its folder says"
            f" another: {message}; move the file to the folder of its value, or to one that is not named so"
        )
    if code == "THERE_IS_NO_COLUMN" or "Unknown field found" in message:
        return f"{message}; {_DIFFERENT_FILES}"
    if code == ErrorCode.VIOLATED_CONSTRAINT.name:
        told = _STAGED.sub("the table", message)
        return (
            f"a row violates a constraint of the table: {told}; correct the files, or leave such rows out with where"
        )
    if told := _explain_guess(message) or str(read_bad_value(message, types) or ""):
        return told
    if is_removed(message):
        return f"{message}{REMOVED_REMEDY}"
    if damage := _DAMAGED.search(message):
        file = _first((_READ_FROM, _FILE), message)
        return (
            f"{f'the file {file!r}' if file else 'a compressed file'} is damaged or incomplete: its data cannot be"
            " decompressed; nothing of it was loaded: upload the file again\n"
            f"ClickHouse: {reason_of(message[: damage.end()])}"
        )
    if away := find_away(ErrorCode.__members__.get(code, 0), message):
        return f"a server {away}"
    if "have an administrator run GRANT" in message:  # the remedy from hooks/driver_errors.py
        return message
    return f"{message}; {_other_remedy(code, message, endpoint)}"


def _explain_guess(message: str) -> str:
    """Say why no type of a new table holds the values of a column; '' for any other message."""
    file = _first((_IN_FILE,), message) or "a file"
    told = ""
    if mixed := _MIXED.search(message):
        told = (
            f"column {mixed['name']!r} is {mixed['old']} in some rows, and {mixed['new']} in row"
            f" {int(mixed['row']) + 1} of {file}, and no type of a new table holds both; create the table first, with"
            " a String column for it"
        )
    if cut := _LONG_NUMBER.search(message):
        told = (
            f"a comma is missing before {cut['rest']!r} in {file}, or the digits belong to a number with more than"
            " the 64 bits that the servers guess types for; write the comma, or, for a new table, create the table"
            " first, with a String, Int256 or Decimal column for the number"
        )
    return f"{told}\nClickHouse: {reason_of(message)}" if told else ""


def explain_timeout(
    message: str,
    *,
    settings: Mapping[str, object],
    connection_settings: Mapping[str, object],
    timeout_seconds: float | None,
) -> str:
    """Say whose limit of time stopped a query; '' for any other failure.

    :param settings: of the task; ``timeout_seconds``: the task's ``execution_timeout``.
    """
    if _code_of(message) != ErrorCode.TIMEOUT_EXCEEDED.name:
        return ""
    name = "max_execution_time"
    if given := settings.get(name):
        whose = f"settings={{{name!r}: {given}}} of the task allows"
    elif given := connection_settings.get(name):
        whose = f"{name}={given} in session_settings of the connection allows"
    elif timeout_seconds:
        whose = f"the task's execution_timeout of {format_seconds(timeout_seconds)} allows"
    else:
        whose = f"{name} in the profile of the user allows"
    return (
        f"it took longer than {whose}, and the servers stopped it; raise the limit, or take fewer files or rows at a"
        " time"
    )


def _shown_day(day: re.Match[str]) -> str:
    """The day that a file's number stands for."""
    number = int(day["day"])
    try:
        return f"{date.fromordinal(date(1970, 1, 1).toordinal() + number)}"
    except (ValueError, OverflowError):
        return f"day {number} since 1970"


# 03/04/2024 10:00
_LOCAL = re.compile(r"(\d\d?)([/.-])(\d\d?)\2(?:19|2\d)\d\d( \d\d?:\d\d(:\d\d)?)?")


def _read_local_time(name: str, type_name: str, text: str) -> str:
    """Build the expression for a time whose day or month comes first; '' for any other text.

    :param name: SQL of the text.
    """
    found, kind = _LOCAL.fullmatch(text), base_type(type_name)
    if not found or not kind.startswith("Date"):
        return ""
    _, mark, second, clock, seconds = found.groups()
    day_first = mark.join(("d", "M", "yyyy") if int(second) <= 12 else ("M", "d", "yyyy"))
    form = day_first + (" H:mm" if clock else "") + (":ss" if seconds else "")
    zone = scale_and_zone(kind)[1] if kind.startswith("DateTime") else ""
    known = f"assumeNotNull({name})" if is_nullable(type_name) else name
    read = f"parseDateTimeInJodaSyntax({known}, '{form}'{f', {zone!r}' if zone else ''})"
    read = read if kind.startswith("DateTime") else f"to{kind}({read})"
    return f"if({name} IS NULL, NULL, {read})" if is_nullable(type_name) else read


# 1,50 and 1.234,50; 1,234 and 1,234.50
_COMMA = re.compile(r"[+-]?\d+,\d+|[+-]?\d{1,3}(\.\d{3})+,\d+")
_COMMAS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


def _read_local_number(name: str, type_name: str, text: str) -> list[tuple[str, str]]:
    """Build the expressions for a number with a comma, each with when the expression is right; none for another text.

    :param name: SQL of the text.
    """
    kind, point = kind_of(base_type(type_name)), f"replaceAll({name}, '.', '')" if "." in text else name
    readings = []
    if kind in (Kind.FLOAT, Kind.DECIMAL):
        readings.append((_COMMA, f"replaceOne({point}, ',', '.')", "a decimal comma"))
    if kind in (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL):
        readings.append((_COMMAS, f"replaceAll({name}, ',', '')", "thousands"))
    found = [(expression, what) for form, expression, what in readings if form.fullmatch(text)]
    return [(expression, f" for {what}" if len(found) > 1 else "") for expression, what in found]


def _far_day(column: str) -> str:
    """What to do about days that are read and that no Date32 holds."""
    name = short_identifier(column or "column")
    null = f"if({name} BETWEEN -25567 AND 120529, toDate32({name}), NULL)"
    nearest = f"toDate32(least(greatest({name}, -25567), 120529))"
    return (
        f"read the days as numbers with data_format=Format(structure='{name} Nullable(Int32), …'), and convert them"
        f" with select={{{column or 'column'!r}: '{null}'}}, or with '{nearest}' for the nearest day that fits"
    )


def is_about_expression(message: str) -> bool:
    """Whether a message blames an expression, or the types of its values, and a retry would fail again."""
    code = _code_of(message)
    return code in _EXPRESSION | _BAD_VALUE or code.startswith(_OF_EXPRESSIONS)


def explain_expression(
    argument: str, text: str, error: ServerError, columns: Collection[str], *, whose: str
) -> ConfigError | None:
    """Build the error for an expression that the server refuses; None if the error is not about an expression.

    :param argument: the argument with the expression.
    :param columns: what the expression may name.
    :param whose: the owner of the columns: ``the files``, or a table.
    """
    message = error.sentence
    if not is_about_expression(message):
        return None
    log.debug("%s=%r is refused: %s", argument, text, message)
    given = f"{argument}={text!r}"
    if error.server_code == ErrorCode.UNKNOWN_IDENTIFIER and (name := _first(_NAMES, message)):
        name = name.strip("`").removeprefix("__table1.")
        near = find_nearest(name, columns)
        shown = [short_identifier(one) for one in columns][:MAX_NAMED_COLUMNS]
        more = ", …" if len(columns) > MAX_NAMED_COLUMNS else ""
        hint = f"did you mean {near}?" if near else f"the columns are {', '.join(shown)}{more}"
        return ConfigError("expression-invalid", f"{given} names {name}, which is not a column of {whose}; {hint}")
    if error.server_code == ErrorCode.UNKNOWN_FUNCTION and (name := _first(_FUNCTIONS, message)):
        guess = _first((_GUESS,), message)
        hint = f"did you mean {guess}()?" if guess else "correct its name"
        return ConfigError("expression-invalid", f"{given} calls {name}(), which this server does not have; {hint}")
    remedy = "correct it"
    if day := _BARE_DAY.search(text):
        remedy = f"put the day into quotes: '{day[0]}'"
    elif "cannot be inside Nullable" in message:
        remedy = "texts may be missing: write ifNull(…, '') around the column"
    elif "Expected: String" in message:
        remedy = "read the column as a text with data_format=Format(structure='… String, …'), or write toString(…)"
    return ConfigError("expression-invalid", f"{given} is refused by the server: {reason_of(message)}; {remedy}")


# What `{{ ds }}` becomes without quotes around it: 2024 - 01 - 31.
_BARE_DAY = re.compile(r"(?<![\w'-])\d{4}-\d\d-\d\d(?![\w'-])")


def is_mistake_for_any_files(error: ChS3Error) -> bool:
    """Whether an error is a mistake in an expression for any files, with no column's name or type to blame."""
    cause = error.__cause__
    return isinstance(error, ConfigError) and isinstance(cause, ServerError) and cause.server_code in _OF_ANY_FILES


def reason_of(message: str) -> str:
    """The reason in a message, with the name of the error, without the query and the place in the query."""
    reason = _AFTER_REASON.split(message.rpartition("DB::Exception: ")[2], maxsplit=1)[0].strip(" .")
    return f"{_APPENDED.sub('', reason)} ({_code_of(message)})"


def _code_of(message: str) -> str:
    """The name of a message's error code: the last code belongs to the whole error."""
    return next(iter(reversed(_CODE.findall(message))), "")


def _other_remedy(code: str, message: str, endpoint: str) -> str:
    if code == ErrorCode.ACCESS_DENIED.name:
        return "grant the user what `ch-s3 docs permissions` lists"
    if "WorkloadIdentityCredential" in message:
        return (
            "ClickHouse takes an application of Entra ID without its secret, and logs in with a token of its own:"
            " give the servers a workload identity that the application trusts, or use NamedCollection(…), or a"
            " connection with the account's key or a SAS token"
        )
    if "Azure::Storage::" in message:
        return (
            "check that the servers may read the container: with its account's key, or with a SAS token of the"
            " account for services, containers and objects; that of a container alone is not enough for ClickHouse"
        )
    if "of Nested data structure" in message:
        return (
            "columns of the table whose names begin alike up to a dot are one Nested column, whose lists are equally"
            " long in each row; give the table other names, and load with select={'a_b': '`a.b`'}"
        )
    if _NEWER_TYPE in message:
        return (
            "the files have a type of Arrow that this version of ClickHouse does not know, such as the texts that"
            " deltalake writes: load with ClickHouse 25.8 or newer, or have another writer write the files"
        )
    if "HTTP status code: " in message:
        return f"check that the servers reach {endpoint}, and that it sends these files to everybody, also in parts"
    if code in _ACCESS:
        where = f"reach {endpoint}" if endpoint else "reach the object store"
        return f"check that the servers {where}, and that the credentials may read the bucket"
    if "memory limit exceeded" in message:  # an error from another node may lack its code
        return _MEMORY_OF_THE_SERVER if "(total)" in message else _MEMORY_OF_THE_QUERY
    if code in _EXPRESSION:
        return "correct select and where, which see the columns of the files"
    return "check that data_format and structure match the files, and check the settings"


def _place(message: str) -> str:
    row, file = _first((_ROW,), message), _first((_FILE,), message)
    if file:
        return f"{f'row {row} of ' if row else ''}{file}"
    return ""


def _first(patterns: tuple[str, ...], message: str) -> str:
    """Return the named group of the first pattern that matches anywhere; '' if none does."""
    for pattern in patterns:
        if match := re.search(pattern, message):
            return str(match[1])
    return ""
