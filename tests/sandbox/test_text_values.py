"""Text becomes the value that was worked out by hand, or none, on each server, and in rejected lines, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_ch_s3.clickhouse.text_grammar import GRAMMARS
from airflow_provider_ch_s3.errors import ServerError
from airflow_provider_ch_s3.sql.filters import Sql, literal, literals
from airflow_provider_ch_s3.sql.text_values import US, value_or_error, value_or_null
from ch_s3_lab.sandbox import Sandbox

pytestmark = pytest.mark.sandbox

LONG = 2**255
UUID = "61f0c404-5cb3-11e7-907b-a6006ad3dba0"
BERLIN = "DateTime('Europe/Berlin')"
CASES: list[tuple[str, Mapping[str, str], Sequence[str]]] = [
    ("Int64", {"9223372036854775807": "9223372036854775807", "-0": "0"}, ["9223372036854775808", " 5", "--5", "0x1"]),
    ("UInt8", {"255": "255", "+0005": "5"}, ["256", "-1", "1.5", str(2**64 + 5), str(2**128 + 5)]),
    ("Int128", {f"+0{2**127 - 1}": str(2**127 - 1), "-007": "-7"}, [str(2**127), str(2**128 + 5), "", "1.0", "-"]),
    ("Int256", {str(-LONG): str(-LONG), "+5": "5", "-0": "0"}, [str(LONG), str(2 * LONG + 5)]),
    ("UInt256", {str(2 * LONG - 1): str(2 * LONG - 1), "0" * 90 + "3": "3"}, [str(2 * LONG), "-1"]),
    ("Float64", {"5e-324": "5e-324", "1e-400": "0", "1.": "1", "-Infinity": "-inf"}, [" 1", "nan(1)", "null", "1_0"]),
    ("Float64", {"0.1": "0.1", "9007199254740993": "9007199254740992"}, [".", "-", "1e+", "+-1", "-1e999", "true"]),
    ("Float32", {"0.1": "0.1", "3.4028235e38": "3.4028235e38", "nan": "nan"}, ["1e39", "-1e39", "--1"]),
    (
        "Decimal(9, 2)",
        {"-.25": "-0.25", "0001.20": "1.2", "150e-2": "1.5", "0e5": "0"},
        [".", "+", "e5", "1e7", "1e"],
    ),
    ("Decimal(9, 2)", {"9999999.99": "9999999.99", "1.200e1": "12"}, ["10000000", "192.168.1.10", "1.5.2", "1e-400"]),
    ("Decimal(38, 0)", {"9" * 38: "9" * 38, "5.0": "5"}, ["5.5", "9" * 39, "5e-1"]),
    ("Decimal(76, 38)", {f"1.{'0' * 37}1": f"1.{'0' * 37}1"}, [f"1.{'0' * 38}1"]),
    ("Bool", {"T": "true", "off": "false", "Enabled": "true"}, ["truex", " true", "yess"]),
    ("Date", {"1970-01-01": "1970-01-01", "2149-06-06": "2149-06-06", "2148-02-29": "2148-02-29"}, ["1969-12-31"]),
    ("Date", {"2023.1.5": "2023-01-05"}, ["2149-06-07", "2149-06-31", "2100-02-29", "2023-01/05", "0", "20230230"]),
    ("Date32", {"1900-01-01": "1900-01-01", "2299-12-31": "2299-12-31"}, ["1850-01-02", "2300-01-01", "1900-02-29"]),
    (
        "DateTime('UTC')",
        {"1970-01-01 00:00:00": "1970-01-01 00:00:00", "20230228": "2023-02-28 00:00:00"},
        ["2023-02"],
    ),
    (
        "DateTime('UTC')",
        {"2106-02-07 06:28:15": "2106-02-07 06:28:15"},
        ["2106-02-07 06:28:16", "1969-12-31 23:59:59"],
    ),
    (
        "DateTime('UTC')",
        {"2023-02-28T10:00+02": "2023-02-28 08:00:00"},
        ["2106-02-07T06:28:15-00:01", "20230228T256060"],
    ),
    (
        "DateTime",
        {"Tue, 28 Feb 2023 10:00:00 -0130": "2023-02-28 11:30:00"},
        ["29 Feb 2023 10:00:00", "now", "10:30:00"],
    ),
    (
        BERLIN,
        {"2024-10-27 02:30:00": "2024-10-27 02:30:00"},
        ["2024/03/31 2:30", "20240331T023000", "31 Mar 2024 02:30"],
    ),
    ("DateTime('America/Sao_Paulo')", {"2017-10-14": "2017-10-14 00:00:00"}, ["2017-10-15", "20171015"]),
    (
        "DateTime64(3, 'UTC')",
        {
            "1960-01-01 00:00:00.25": "1960-01-01 00:00:00.250",
            "1960-01-01T00:00:00.25Z": "1960-01-01 00:00:00.250",
            "1960-01-01T00:00:00.25+01:00": "1959-12-31 23:00:00.250",
            "1960/01/01 00:00:00,25": "1960-01-01 00:00:00.250",
            "19600101T000000.25": "1960-01-01 00:00:00.250",
            "2023-02-28 23:59:59.123000": "2023-02-28 23:59:59.123",
            "1900-01-01": "1900-01-01 00:00:00.000",
            "2299-12-31 23:59:59.999": "2299-12-31 23:59:59.999",
        },
        ["2023-02-28 23:59:59.1234", "2299-12-31T23:59:59-01:00", "1900-01-01T00:00:00+01:00", "2023-02-28 23:59:60"],
    ),
    ("DateTime64(6)", {"1969-12-31 23:59:59.000001": "1969-12-31 23:59:59.000001"}, ["9999-12-31 00:00:00"]),
    (
        "DateTime64(9, 'UTC')",
        {
            "1960-01-01T00:00:00.123456789Z": "1960-01-01 00:00:00.123456789",
            "2262-04-11 23:47:16": "2262-04-11 23:47:16.000000000",
        },
        [
            *("2262-04-11 23:47:17", "2299-01-01 00:00:00", "2023-02-28 10:00:00.1234567891"),
            # beyond the greatest number of 64 bits
            *("2262-04-11 23:47:16.854775808", "2262-04-11T23:47:16.9Z"),
        ],
    ),
    (
        "IPv6",
        {"1:2:3:4:5:6:7::": "1:2:3:4:5:6:7:0", "::2:3:4:5:6:1.2.3.4": "0:2:3:4:5:6:102:304", "::": "::"},
        ["::1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8::", "::1:2:3:4:5:6:1.2.3.4", "::ffff:01.2.3.4", "::ffff:1.2.3.04"],
    ),
    ("UUID", {UUID: UUID}, [f"zz{UUID[2:]}", f"{UUID} ", UUID[:-1], UUID[:23], UUID.replace("-", "")[:19]]),
]
SETTINGS = {
    "precise_float_parsing": 1,
    "date_time_overflow_behavior": "throw",
    "short_circuit_function_evaluation": "enable",
    "session_timezone": "UTC",
}


def values_or_null(
    sandbox: Sandbox, kind: str, texts: Sequence[str], parser: str = "", **more: object
) -> dict[str, str | None]:
    """Read texts as a rejected line does."""
    value = value_or_null(Sql("text"), kind, parser)
    query = f"SELECT text, toString({value}) AS made FROM (SELECT arrayJoin([{literals(texts)}]) AS text)"
    return {row["text"]: row["made"] for row in sandbox.query(query, settings={**SETTINGS, **more})}


def values_or_error(
    sandbox: Sandbox, kind: str, texts: Sequence[str], parser: str = "", **more: object
) -> dict[str, str | None]:
    """Read texts as a load does."""
    query = (
        f"WITH (text) -> {value_or_error(Sql('text'), kind, parser)} AS ch_s3_f"
        f" SELECT text, toString(ch_s3_f(text)) AS made FROM (SELECT arrayJoin([{literals(texts)}]) AS text)"
    )
    return {row["text"]: row["made"] for row in sandbox.query(query, settings={**SETTINGS, **more})}


def check(
    sandbox: Sandbox, kind: str, values: Mapping[str, str], refused: Sequence[str], parser: str = "", **more: object
) -> list[object]:
    """Return what differs from the expected values."""
    expected = {**values, **dict.fromkeys(refused)}
    found = values_or_null(sandbox, kind, list(expected), parser, **more)
    wrong: list[object] = [(kind, one, found[one]) for one in expected if found[one] != expected[one]]
    if (loaded := values_or_error(sandbox, kind, list(values), parser, **more)) != values:
        wrong.append((kind, loaded))
    for text in refused:
        try:
            wrong.append((kind, text, values_or_error(sandbox, kind, [text], parser, **more)))
        except ServerError as error:
            if error.server_code in {43, 46, 47, 62}:  # it is the text that is wrong, and not the statement
                wrong.append((kind, text, str(error)))
    return wrong


@pytest.mark.every_case
def test_the_grammar_is_what_the_server_does(engine: tuple[float, Sandbox]) -> None:
    version, sandbox = engine
    more: dict[str, Any] = {"enable_time_time64_type": 1} if version > 26 else {}
    wrong = []
    for one in GRAMMARS:
        if one.version <= version:
            wrong += check(sandbox, one.type, one.values, one.refused, **more)
    for kind, values, refused in CASES:
        wrong += check(sandbox, kind, values, refused)
    wrong += check(sandbox, "Date", {"12/31/2023": "2023-12-31", "2-29-2024": "2024-02-29"}, ["31/12/2023"], US)
    zone = {"session_timezone": "Europe/Berlin"}
    here = {"2024-03-31 01:30:00": "2024-03-31 01:30:00", "2024-03-31T02:30:00Z": "2024-03-31 04:30:00"}
    wrong += check(sandbox, "DateTime", here, ["2024-03-31 02:30:00", "31 Mar 2024 02:30:00"], **zone)
    # the machine code of comparisons takes times before 1970 for later ones in some functions
    compiled: dict[str, Any] = {"compile_expressions": 1, "min_count_to_compile_expression": 0}
    wrong += check(sandbox, "DateTime64(3)", {"1960-01-01T00:00:00.5Z": "1960-01-01 00:00:00.500"}, ["x"], **compiled)
    assert wrong == []


# Every text of up to five of these characters.
ENUMERATED = [
    ("Int64", r"^[+-]?[0-9]+$", "+-.0e1 tx"),
    ("UInt32", r"^[+]?[0-9]+$", "+-.0e1 tx"),
    ("Float64", r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$", "+-.0e1 \t"),
    ("Int128", r"^[+-]?[0-9]+$", "+-.0e1 tx"),
]


@pytest.mark.every_case
def test_no_other_short_text_is_a_number(engine: tuple[float, Sandbox]) -> None:
    """The parsers are relied on for numbers: they take the texts of the grammar, and nothing else."""
    _, sandbox = engine
    for kind, pattern, characters in ENUMERATED:
        base = len(characters) + 1
        letters = f"[{literals(['', *characters])}]"
        text = ", ".join(f"{letters}[intDiv(number, {base**n}) % {base} + 1]" for n in range(5))
        query = (
            f"SELECT groupUniqArray(20)(text) AS texts FROM (SELECT concat({text}) AS text FROM numbers({base**5}))"
            f" WHERE ({value_or_null(Sql('text'), kind)} IS NOT NULL) != match(text, {literal(pattern)})"
        )
        assert sandbox.query(query, settings=SETTINGS) == [{"texts": []}]


TYPES = [one.type for one in GRAMMARS if not one.version]
PIECES = st.sampled_from(
    ["2024", "1960", "02", "29", "30", "-", "/", ".", ":", "T", " ", "Z", "+", "e", "5", "00", "true", ","]
)


@pytest.mark.thorough
@pytest.mark.every_case
@given(texts=st.lists(st.lists(PIECES, max_size=9).map("".join), min_size=20, max_size=20, unique=True))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_rejected_line_and_a_load_take_the_same_texts(ch_s3_sandbox: Sandbox, texts: list[str]) -> None:
    for kind in TYPES:
        found = values_or_null(ch_s3_sandbox, kind, texts)
        fitting = {text: made for text, made in found.items() if made is not None}
        assert not fitting or values_or_error(ch_s3_sandbox, kind, list(fitting)) == fitting
        for text in [text for text, made in found.items() if made is None][:3]:
            with pytest.raises(ServerError):
                values_or_error(ch_s3_sandbox, kind, [text])
