"""What is said of a server's error; the messages are those of 26.7."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_ch_s3.errors import BadValueError, ChS3Error, ConfigError, LoadError, ServerError, SourceError
from airflow_provider_ch_s3.introspection.explain import (
    BadValue,
    build_failure,
    explain,
    explain_expression,
    explain_timeout,
    is_mistake_for_any_files,
    reason_of,
)

TYPES = {"v": "UInt16", "dt": "Date", "a b": "UInt8"}
WIDEN = "widen the column, convert the value with select={'v': '…'}, or leave such rows out with where"
CAST = (
    "Code: 70. DB::Exception: Value in column Int64 cannot be safely converted into type UInt16: while executing"
    " 'FUNCTION accurateCast(__table1.v :: 0, 'UInt16'_String) -> …'. (CANNOT_CONVERT_TYPE)"
)


@pytest.mark.parametrize(
    ("message", "what", "remedy"),
    [
        pytest.param(
            r"Code: 6. DB::Exception: Cannot parse string 'the value O\'B is not that in the path b/v=a/1.parquet' as"
            " UInt8: syntax error at begin of string. (CANNOT_PARSE_TEXT)",
            r"""a column has the value "O\\'B" in 'b/v=a/1.parquet', and the name of its folder says another: Code""",
            "move the file to the folder of its value, or to one that is not named so",
            id="folder",
        ),
        pytest.param(
            "Code: 117. DB::Exception: Invalid: Unrecognized type: 24: (in file/uri b/t/1.zstd.parquet)."
            " (INCORRECT_DATA)",
            "Code: 117. ",
            "the files have a type of Arrow that this version of ClickHouse does not know, such as the texts that"
            " deltalake writes: load with ClickHouse 25.8 or newer, or have another writer write the files",
            id="newer-type",
        ),
        pytest.param(
            "Code: 499. DB::Exception: Access denied. (S3_ERROR)",
            "Code: 499. DB::Exception: Access denied. (S3_ERROR); ",
            "check that the servers reach http://s3:9000, and that the credentials may read the bucket",
            id="rights",
        ),
        pytest.param(
            "Code: 499. DB::Exception: Failed to get object info: No response body.. HTTP response code: 404: while"
            " reading in/b.csv: (in file/uri b/in/b.csv). (S3_ERROR)",
            "Code: 499. ",
            "a file was removed after it was listed: load again, which lists the files again",
            id="removed",
        ),
        pytest.param(
            "Code: 47. DB::Exception: Unknown expression identifier `nope`. (UNKNOWN_IDENTIFIER)",
            "Code: 47. ",
            "correct select and where, which see the columns of the files",
            id="expression",
        ),
        pytest.param(
            "std::exception. Code: 1001, type: Azure::Core::Credentials::AuthenticationException, e.what() ="
            " WorkloadIdentityCredential authentication unavailable. (version 25.8.2.1)",
            "std::exception",
            "give the servers a workload identity that the application trusts",
            id="no-workload-identity",
        ),
        pytest.param(
            "Code: 117. DB::Exception: Unknown field found in format header: 'c' at position 2. (INCORRECT_DATA)",
            "Code: 117. ",
            "the files differ in their columns: load files with the same columns together, or name what to load with"
            " columns=[…]",
            id="other-columns",
        ),
        pytest.param(
            "Code: 497. DB::Exception: loader: Not enough privileges. To execute this query, it's necessary to have"
            " the grant INSERT(n) ON d.t. (ACCESS_DENIED)",
            "Code: 497. ",
            "grant the user what `ch-s3 docs permissions` lists",
            id="grant",
        ),
        pytest.param("Code: 1000. (NEVER_HEARD_OF)", "Code: 1000. ", "check that data_format", id="anything-else"),
        pytest.param(
            "Code: 241. DB::Exception: (total) memory limit exceeded: would use 1.80 GiB. (MEMORY_LIMIT_EXCEEDED)",
            "Code: 241. ",
            "the server ran out of memory: load again, because a new plan divides the memory among the loads that run"
            " then, or have each plan with less from the start (max_concurrent_loads or ingest_memory_ratio in the"
            " connection)",
            id="too-many-loads",
        ),
        pytest.param(
            "Code: 241. DB::Exception: Received from n2:9000. DB::Exception: (total) memory limit exceeded: would use"
            " 1 GiB: While executing ReadFromObjectStorage.",
            "Code: 241. ",
            "the server ran out of memory: load again",
            id="too-many-loads-on-another-node",
        ),
        pytest.param(
            "Code: 241. DB::Exception: Query memory limit exceeded: would use 1.80 MiB. (MEMORY_LIMIT_EXCEEDED)",
            "Code: 241. ",
            "raise max_memory_usage, or lower ingest_memory_ratio in the connection to plan with less",
            id="limit-of-the-query",
        ),
        pytest.param(
            "Code: 636. DB::Exception: Error: Code: 117. Parquet file too short. (INCORRECT_DATA) . You can specify"
            " the structure manually: (in file/uri in/a.parquet). (CANNOT_EXTRACT_TABLE_STRUCTURE)",
            "Code: 636. ",
            "check that data_format and structure match the files, and check the settings",
            id="no-such-format",
        ),
    ],
)
def test_explain(message: str, what: str, remedy: str) -> None:
    explained = explain(message, TYPES, endpoint="http://s3:9000")
    assert explained.startswith(what)
    assert remedy in explained.rpartition(";")[2]
    assert message in explained
    assert ("check that the servers" in explained) == ("Access denied" in message)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(
            "Code: 53. DB::Exception: Automatically defined type Array(Int64) for column 'v' in row 1 differs from"
            " type defined by previous rows: Tuple(a Int64). You can specify the type for this column using setting"
            " schema_inference_hints. (TYPE_MISMATCH)",
            "column 'v' is Tuple(a Int64) in some rows, and Array(Int64) in row 2 of in/a.jsonl, ",
            id="object-and-list",
        ),
        pytest.param(
            "Code: 27. DB::Exception: Cannot parse input: expected ',' before: '251392}\\n'."
            " (CANNOT_PARSE_INPUT_ASSERTION_FAILED)",
            "a comma is missing before '251392' in in/a.jsonl, or the digits belong to a number with more than",
            id="number-beyond-64-bits",
        ),
    ],
)
def test_what_no_type_of_a_new_table_holds(error: str, told: str) -> None:
    message = (
        "Code: 636. DB::Exception: The table structure cannot be extracted from a JSONEachRow format file."
        f" Error: {error} . You can specify the structure manually: (in file/uri in/a.jsonl)."
        " (CANNOT_EXTRACT_TABLE_STRUCTURE)"
    )
    explained = explain(message)
    assert explained.startswith(told)
    assert "create the table first, with a String" in explained


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(
            "Code: 636. DB::Exception: The table structure cannot be extracted from a CSV format file. Error: Code:"
            " 354. DB::Exception: inflate failed: buffer error: While reading from: b/in/a.csv.gz."
            " (ZLIB_INFLATE_FAILED) . You can specify the structure manually: (in file/uri in/a.csv.gz)."
            " (CANNOT_EXTRACT_TABLE_STRUCTURE)",
            id="at-its-beginning",
        ),
        pytest.param(
            "Code: 354. DB::Exception: inflate failed: buffer error: While reading from: b/in/a.csv.gz: (in file/uri"
            " b/in/a.csv.gz): While executing BinaryRowInputFormat. (ZLIB_INFLATE_FAILED)",
            id="later",
        ),
    ],
)
def test_a_damaged_file(message: str) -> None:
    assert explain(message) == (
        "the file 'b/in/a.csv.gz' is damaged or incomplete: its data cannot be decompressed; nothing of it was"
        " loaded: upload the file again\nClickHouse: inflate failed: buffer error (ZLIB_INFLATE_FAILED)"
    )


def test_a_right_with_its_grant_needs_no_second_remedy() -> None:
    message = "user 'u' lacks the right S3 (ACCESS_DENIED); have an administrator run GRANT S3 TO u on every node"
    assert explain(message) == message


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        pytest.param(
            CAST,
            [
                "column v: a value is not a valid UInt16",
                WIDEN,
                "ClickHouse: Value in column Int64 cannot be safely converted into type UInt16 (CANNOT_CONVERT_TYPE)",
            ],
            id="cast",
        ),
        pytest.param(
            "Code: 117. DB::Exception: Expected end of line: (at row 2) : Row 1: Column 0, name: n, type: Int64,"
            ' parsed text: "1" Column 1, name: v, type: Nullable(Int64), parsed text: "5" Row 2: Column 0, name: n,'
            ' type: Int64, parsed text: "2" Column 1, name: v, type: Nullable(Int64), parsed text: <EMPTY> ERROR:'
            ' garbage after Nullable(Int64): "x<LINE FEED>" : (in file/uri bucket/e/b.csv): While executing'
            " ReadFromObjectStorage. (INCORRECT_DATA)",
            ["column v: 'x' is not a valid UInt16", "row 2 of bucket/e/b.csv", WIDEN],
            id="parser",
        ),
        pytest.param(
            """Code: 27. DB::Exception: Cannot parse input: expected '"' before: 'x"} ': (while reading the value"""
            " of key v): (at row 1) : (in file/uri bucket/e/f.jsonl): While executing ParallelParsing."
            " (CANNOT_PARSE_INPUT_ASSERTION_FAILED)",
            ["column v: a value is not a valid UInt16", "row 1 of bucket/e/f.jsonl", WIDEN],
            id="json",
        ),
        pytest.param(
            "Code: 6. DB::Exception: Cannot parse string '2023-02-28 23:60:61 does not fit' as Date32: syntax error"
            " at position 10: while executing 'FUNCTION if(isNull(__table1.`a b`) …'. (CANNOT_PARSE_TEXT)",
            ["column a b: '2023-02-28 23:60:61' is not a valid UInt8"],
            id="time",
        ),
        pytest.param(
            "Code: 38. DB::Exception: Cannot parse date here: 31.12.2024: Cannot parse Date32 from String: while"
            " executing 'FUNCTION if(…__table3.dt…)'. (CANNOT_PARSE_DATE)",
            ["column dt: '31.12.2024' is not a valid Date"],
            id="day",
        ),
        pytest.param(
            "Code: 38. DB::Exception: Cannot parse date here: ja does no: Cannot parse Date32 from String: while"
            " executing 'FUNCTION if(…__table3.dt…)'. (CANNOT_PARSE_DATE)",
            ["column dt: 'ja' is not a valid Date"],
            id="short",
        ),
        pytest.param(
            "Code: 41. DB::Exception: Cannot read DateTime: unexpected date: 2023-2-30: while executing 'FUNCTION"
            " toDate32(parseDateTime64BestEffort(extract(__table3._path, '/dt=([^/]*)/'_String) …'."
            " (CANNOT_PARSE_DATETIME)",
            ["column dt: '2023-2-30' is not a valid Date"],
            id="path",
        ),
        pytest.param(
            "Code: 349. DB::Exception: Cannot convert NULL value to non-Nullable type: while converting source column"
            " `accurateCast(v, 'Nullable(UInt16)')` to destination column v: while executing 'FUNCTION …'."
            " (CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN)",
            [
                "column v: a value is missing or empty, and UInt16 is not Nullable",
                "make the column Nullable, give a value with select={'v': 'ifNull(…)'}, or leave such rows out with"
                " where",
            ],
            id="null",
        ),
        pytest.param(
            "Code: 6. DB::Exception: Cannot parse. (CANNOT_PARSE_TEXT)",
            [
                "a value does not fit",
                WIDEN.replace("'v'", "'column'"),
                "ClickHouse: Cannot parse (CANNOT_PARSE_TEXT)",
            ],
            id="nothing-known",
        ),
    ],
)
def test_a_value_that_does_not_fit(message: str, lines: list[str]) -> None:
    assert explain(message, TYPES).splitlines()[: len(lines)] == lines


@pytest.mark.parametrize(
    ("bad_value", "first"),
    [
        (
            BadValue(column="zip", type="LowCardinality(Nullable(UInt32))", value="1 0"),
            "column zip: '1 0' is not a valid UInt32",
        ),
        (BadValue(column="zip", type="UInt32", value="007", is_held=True), "column zip: '007' does not fit UInt32"),
        (
            BadValue(column="code", type="FixedString(2)", value="abc"),
            "column code: 'abc' does not fit FixedString(2)",
        ),
        (
            BadValue(column="a\u200b", type="Date", value="x\n" * 60),
            f"column 'a\\u200b': {('x' + chr(10)) * 30!r} is not a valid Date",
        ),
    ],
)
def test_what_is_wrong_with_a_value(bad_value: BadValue, first: str) -> None:
    assert str(bad_value).splitlines()[0] == first


@pytest.mark.parametrize(
    ("type_name", "value", "remedy"),
    [
        ("Decimal(9, 2)", "1,50", """select={'v': "replaceOne(v, ',', '.')"}"""),
        ("Nullable(Float64)", "-1.234,5", """select={'v': "replaceOne(replaceAll(v, '.', ''), ',', '.')"}"""),
        ("Int32", "1,234", """select={'v': "replaceAll(v, ',', '')"}"""),
        ("UInt64", "1,234,567", """select={'v': "replaceAll(v, ',', '')"}"""),
        ("Float32", "1,234.50", """select={'v': "replaceAll(v, ',', '')"}"""),
        (
            "Decimal(9, 3)",
            "1,234",
            """select={'v': "replaceOne(v, ',', '.')"} for a decimal comma, or with select={'v': "replaceAll(v,"""
            """ ',', '')"} for thousands""",
        ),
    ],
)
def test_what_a_comma_in_a_number_may_mean(type_name: str, value: str, remedy: str) -> None:
    told = str(BadValue(column="v", type=type_name, value=value)).splitlines()
    assert told[1] == f"say what the text means with {remedy}"


def test_a_comma_in_what_select_computes() -> None:
    told = BadValue(column="v", type="Decimal(9, 2)", value="1,5", expression="trim(Betrag)")
    assert """select={'v': "replaceOne(trim(Betrag), ',', '.')"}""" in str(told)


@pytest.mark.parametrize(
    ("type_name", "value"), [("Date", "1,50"), ("Int32", "1,50"), ("Float64", "1,5,0"), ("Float64", "a,50")]
)
def test_commas_of_no_number(type_name: str, value: str) -> None:
    assert "replace" not in str(BadValue(column="v", type=type_name, value=value))


def test_the_reason_of_a_server_has_no_words_of_the_load() -> None:
    said = "Code: 6. DB::Exception: Cannot parse string '1,5 does not fit' as Float64. (CANNOT_PARSE_TEXT)"
    assert reason_of(said) == "Cannot parse string '1,5' as Float64 (CANNOT_PARSE_TEXT)"


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        pytest.param(
            47,
            "ClickHouse at ch:8123: Code: 47. DB::Exception: Unknown expression or function identifier `carier` in"
            " scope SELECT _path, carier = 'UA' FROM s3(…). Maybe you meant: ['carrier']. (UNKNOWN_IDENTIFIER)",
            "where='…' names carier, which is not a column of the files; did you mean carrier?",
            id="26.7",
        ),
        pytest.param(
            47,
            "Code: 47. DB::Exception: Unknown expression identifier 'x' in scope SELECT x. (UNKNOWN_IDENTIFIER)",
            "where='…' names x, which is not a column of the files; the columns are carrier, `a b`",
            id="nothing-near",
        ),
        pytest.param(
            47,
            "Code: 47. DB::Exception: Unknown expression or function identifier `x`. In scope SELECT f(x)."
            " (UNKNOWN_IDENTIFIER)",
            "where='…' names x, which is not a column of the files; the columns are carrier, `a b`",
            id="after-26.7",
        ),
        pytest.param(
            46,
            "Code: 46. DB::Exception: Function with name `lenght` does not exist. In scope SELECT lenght(a). Maybe"
            " you meant: ['length']. (UNKNOWN_FUNCTION)",
            "where='…' calls lenght(), which this server does not have; did you mean length()?",
            id="function",
        ),
        pytest.param(
            53,
            "Code: 53. DB::Exception: Cannot convert string 'abc' to type UInt32: while executing 'x'."
            " (TYPE_MISMATCH)",
            "where='…' is refused by the server: Cannot convert string 'abc' to type UInt32 (TYPE_MISMATCH); correct"
            " it",
            id="type",
        ),
        pytest.param(
            43,
            "Code: 43. DB::Exception: A value of illegal type was provided as 1st argument 'haystack' to function"
            " 'replaceAll'. Expected: String or FixedString, got: Float64. (ILLEGAL_TYPE_OF_ARGUMENT)",
            "where='…' is refused by the server: A value of illegal type was provided as 1st argument 'haystack' to"
            " function 'replaceAll'. Expected: String or FixedString, got: Float64 (ILLEGAL_TYPE_OF_ARGUMENT); read"
            " the column as a text with data_format=Format(structure='… String, …'), or write toString(…)",
            id="number-instead-of-text",
        ),
        pytest.param(
            43,
            "Code: 43. DB::Exception: Nested type Array(String) cannot be inside Nullable type."
            " (ILLEGAL_TYPE_OF_ARGUMENT)",
            "where='…' is refused by the server: Nested type Array(String) cannot be inside Nullable type"
            " (ILLEGAL_TYPE_OF_ARGUMENT); texts may be missing: write ifNull(…, '') around the column",
            id="list-of-a-missing-text",
        ),
        pytest.param(499, "Code: 499. DB::Exception: Access Denied. (S3_ERROR)", None, id="not-of-the-expression"),
    ],
)
def test_what_is_wrong_with_an_expression(
    code: int, message: str, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """What the server said about it is left to the log's DEBUG."""
    error = ServerError("server-error", message, server_code=code)
    with caplog.at_level(logging.DEBUG, logger="airflow_provider_ch_s3.introspection.explain"):
        explained = explain_expression("where", "…", error, ["carrier", "a b"], whose="the files")
    assert (explained and explained.sentence) == said
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert logged == ([("DEBUG", f"where='…' is refused: {message}")] if said else [])


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("day = 2024-01-31", "put the day into quotes: '2024-01-31'"),
        ("day = '2024-01-31' AND n = 'x'", "correct it"),
        ("n = 12024-01-31", "correct it"),
    ],
)
def test_a_day_without_quotes_is_told(text: str, remedy: str) -> None:
    """As ``{{ ds }}`` becomes one."""
    message = "Code: 43. DB::Exception: Illegal types of arguments (`Date`, `Int64`). (ILLEGAL_TYPE_OF_ARGUMENT)"
    error = ServerError("server-error", message, server_code=43)
    told = explain_expression("where", text, error, ["day"], whose="the files")
    assert told is not None
    assert told.sentence.endswith(f"(ILLEGAL_TYPE_OF_ARGUMENT); {remedy}")


DENIED = "Code: 497. DB::Exception: loader: Not enough privileges. (ACCESS_DENIED)"
REMOVED = "Code: 499. DB::Exception: The specified key does not exist: while reading in/b.csv. (S3_ERROR)"
UNCONVERTED = (
    "Code: 6. DB::Exception: Cannot parse string '12,50 does not fit' as Decimal(9, 2): syntax error at position 2:"
    " while executing 'FUNCTION if(…__table1.amount…)'. (CANNOT_PARSE_TEXT)"
)
UNPARSED = "Code: 6. DB::Exception: Received from n2:9000. DB::Exception: Cannot parse string. (CANNOT_PARSE_TEXT)"


@pytest.mark.parametrize(
    ("message", "is_typed", "is_whole", "code"),
    [
        pytest.param(DENIED, True, True, "grant-missing", id="grant"),
        pytest.param(UNPARSED, True, False, "value-does-not-fit", id="value"),
        pytest.param(UNPARSED, False, True, "value-does-not-fit", id="text"),
        pytest.param(UNCONVERTED, False, True, "value-does-not-fit", id="text-in-a-function"),
        pytest.param(UNPARSED, False, False, "no-code", id="text-that-may-still-be-written"),
        pytest.param(UNCONVERTED, False, False, "no-code", id="text-in-a-function-that-may-still-be-written"),
        pytest.param("Expected end of line (INCORRECT_DATA)", False, True, "value-does-not-fit", id="line"),
        pytest.param("Not a Parquet file (INCORRECT_DATA)", True, False, "no-code", id="file-that-may-be-written"),
        pytest.param("Unknown field found: x (INCORRECT_DATA)", False, True, "no-code", id="field"),
        pytest.param(CAST, False, False, "value-does-not-fit", id="number-in-text"),
        pytest.param("Code: 499. Access Denied. (S3_ERROR)", True, True, "no-code", id="store"),
        pytest.param("Code: 499. NoSuchBucket: 404 (S3_ERROR)", True, True, "no-code", id="bucket"),
        pytest.param("inflate failed. (ZLIB_INFLATE_FAILED)", False, True, "file-truncated", id="damaged"),
        pytest.param(REMOVED, True, True, "file-changed-meanwhile", id="removed"),
    ],
)
def test_what_no_retry_can_change_is_final(message: str, is_typed: bool, is_whole: bool, code: str) -> None:
    error = build_failure(LoadError, "no-code", "text", message, is_typed=is_typed, is_whole=is_whole)
    is_final = code in ("value-does-not-fit", "grant-missing")
    assert (error.sentence, error.code, error.is_final) == ("text", code, is_final)
    assert type(error) is (BadValueError if code == "value-does-not-fit" else LoadError)


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [(ConfigError, 46, True), (ConfigError, 215, True), (ConfigError, 47, False), (SourceError, 46, False)],
)
def test_which_mistakes_do_not_depend_on_the_files(kind: type[ChS3Error], code: int, expected: bool) -> None:
    error = kind("a-code", "text")
    error.__cause__ = ServerError("server-error", "text", server_code=code)
    assert is_mistake_for_any_files(error) is expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            "Input value 2932896 is out of allowed Date32 range, which is [-25567, 120530]: read stage: ColumnData:"
            " column: d: (in file/uri b/a.parquet): (VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE)",
            "column d: a value is 9999-12-31, outside of 1900 to 2299\nb/a.parquet\n",
            id="parquet",
        ),
        pytest.param(
            'Input value -43829 of a column "d" is out of allowed Date32 range, which is [-25567, 120530]:'
            " (VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE)",
            "column d: a value is 1850-01-01, outside of 1900 to 2299\n",
            id="25.8",
        ),
        pytest.param(
            'Input value 9932896 of a column "d" exceeds the range of type Date32, which is [-25567, 120530]:'
            " (VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE)",
            "column d: a value is day 9932896 since 1970, outside of 1900 to 2299\n",
            id="orc",
        ),
    ],
)
def test_a_day_that_no_date_holds(message: str, expected: str) -> None:
    explained = explain(message)
    assert explained.startswith(expected)
    assert "structure='d Nullable(Int32), …'" in explained


def test_a_constraint_is_that_of_the_table() -> None:
    message = (
        "Code: 469. DB::Exception: Constraint `positive` for table d.ch_s3_stage_bb0a32ccb98a_d1_0_1_1"
        " (0d1b2c3a-1111-2222-3333-444455556666) is violated at row 1. Expression: (n > 0). Column values: n = 0."
        " (VIOLATED_CONSTRAINT)"
    )
    said = explain(message)
    assert said.startswith("a row violates a constraint of the table: ")
    assert "Constraint `positive` for the table is violated at row 1" in said


STOPPED = "Code: 159. DB::Exception: Timeout exceeded: elapsed 2 seconds, maximum: 2. (TIMEOUT_EXCEEDED)"
LIMIT = {"max_execution_time": 2}


@pytest.mark.parametrize(
    ("settings", "connection", "seconds", "said"),
    [
        pytest.param({}, {}, 7200.0, "the task's execution_timeout of 2 h 00 min allows", id="task"),
        pytest.param(LIMIT, LIMIT, 7200.0, "settings={'max_execution_time': 2} of the task allows", id="settings"),
        pytest.param(
            {}, LIMIT, 7200.0, "max_execution_time=2 in session_settings of the connection", id="connection"
        ),
        pytest.param({}, {}, None, "max_execution_time in the profile of the user allows", id="profile"),
    ],
)
def test_whose_limit_stopped_a_query(
    settings: dict[str, int], connection: dict[str, int], seconds: float | None, said: str
) -> None:
    how = {"settings": settings, "connection_settings": connection, "timeout_seconds": seconds}
    assert explain_timeout(STOPPED, **how).startswith(f"it took longer than {said}")  # type: ignore[arg-type]
    other = "Code: 241. DB::Exception: no. (MEMORY_LIMIT_EXCEEDED)"
    assert explain_timeout(other, **how) == ""  # type: ignore[arg-type]
