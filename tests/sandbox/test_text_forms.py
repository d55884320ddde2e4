"""The texts that people report, loaded in each format of text: each is the value worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle

import pytest

from airflow_provider_ch_s3.arguments import Checks, Reject
from airflow_provider_ch_s3.errors import BadValueError
from ch_s3_lab.sandbox import Sandbox
from tests.failures import coded
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

FORMATS = ("csv", "csv-header", "tsv", "jsonl")
# type of the column, text, value
VALUES = [
    ("Int32", "-42", -42),
    ("Nullable(Int32)", "+7", 7),
    ("Float64", "1E3", 1000),
    ("Decimal(9, 2)", "1.50", 1.5),
    ("Bool", "true", True),
    ("Bool", "NO", False),
    ("Date", "2024-02-29T00:00:00Z", "2024-02-29"),
    ("DateTime('UTC')", "2106-02-07 06:28:15", "2106-02-07 06:28:15"),
    ("DateTime64(3, 'UTC')", "1960-01-01 00:00:00.25", "1960-01-01 00:00:00.250"),
    ("DateTime('Europe/Berlin')", "2024-03-31T03:30:00Z", "2024-03-31 05:30:00"),
    ("Time", "10:30", "10:30:00"),
    ("Enum8('LOW' = 1, '2' = 5)", "2", "2"),
    ("IPv4", "192.168.1.10", "192.168.1.10"),
    ("String", "007", "007"),
]


# type of the column, text that is no value
NO_VALUES = [
    ("Int32", "1.0"),
    ("Int32", "0x10"),
    ("UInt8", "256"),
    ("Float64", "--1.5"),
    ("Float64", "1e400"),
    ("Decimal(18, 4)", "1.234.567"),
    ("Decimal(18, 4)", "1.5.2"),
    ("Decimal(18, 4)", "31.12.23"),
    ("Decimal(18, 4)", "192.168.1.10"),
    ("Decimal(18, 4)", "1.00005"),
    ("Bool", "2"),
    ("Date", "2025-02-30"),
    ("DateTime('UTC')", "Jan  2 10:00:00 +0000"),
    ("DateTime('Europe/Berlin')", "2024-03-31 02:30:00"),
    ("DateTime64(3, 'UTC')", "1700000000123"),
    ("Time", "25:61:61"),
    ("Enum8('LOW' = 1, '2' = 5)", "low"),
    ("IPv4", "1.2.3"),
]


def put(lab: Lab, data_format: str, texts: Sequence[str], bare: Sequence[str] = ()) -> None:
    """Write a row, with quotes around each text but in TSV.

    :param bare: texts that JSON has without quotes.
    """
    names, key = [f"c{n}" for n in range(len(texts))], f"in/a.{data_format.partition('-')[0]}"
    if data_format == "jsonl":
        shown = (text if text in bare else json.dumps(text) for text in texts)
        line = f"{{{', '.join(f'{json.dumps(name)}: {one}' for name, one in zip(names, shown, strict=True))}}}"
        lab.put(key, f"{line}\n".encode())
        return
    mark = "\t" if data_format == "tsv" else ","
    quoted = texts if data_format == "tsv" else [f'"{text}"' for text in texts]
    rows = [names, quoted] if "header" in data_format else [quoted]
    lab.put(key, "".join(mark.join(row) + "\n" for row in rows).encode())


@pytest.mark.parametrize("data_format", FORMATS)
def test_values(lab: Lab, data_format: str) -> None:
    lab.connect_one_node()
    table = lab.create("t", ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(VALUES)))
    put(lab, data_format, [text for _, text, _ in VALUES])
    lab.load("in/*", table)
    assert [list(row.values()) for row in lab.rows(table)] == [[value for _, _, value in VALUES]]


@pytest.mark.parametrize(("kind", "text"), NO_VALUES, ids=[text for _, text in NO_VALUES])
def test_no_value(engine: tuple[float, Sandbox], engine_lab: Lab, kind: str, text: str) -> None:
    if kind == "Time" and engine[0] < 25.8:
        pytest.skip("no such type")
    for number, (data_format, wrapper) in enumerate(zip(FORMATS, cycle(("{}", "Nullable({})")), strict=False)):
        table = engine_lab.create(f"t{number}", f"c0 {wrapper.format(kind)}")
        put(engine_lab, data_format, [text])
        with pytest.raises(BadValueError, match=coded("value-does-not-fit", "column c0")):
            engine_lab.load(f"in/a.{data_format.partition('-')[0]}", table)
        assert engine_lab.rows(table) == []


@pytest.mark.parametrize("data_format", ["csv", "jsonl"])
def test_a_row_with_a_text_that_is_no_value_is_bad(lab: Lab, data_format: str) -> None:
    """Each row has one such text, and no other value."""
    lab.connect_one_node()
    names = [f"c{number}" for number, _ in enumerate(NO_VALUES)]
    table = lab.create("t", ", ".join(f"c{n} Nullable({kind})" for n, (kind, _) in enumerate(NO_VALUES)))
    wrong = dict(zip(names, (text for _, text in NO_VALUES), strict=True))
    rows = {
        "csv": (",".join(f'"{wrong[one]}"' if one == name else r"\N" for one in names) for name in names),
        "jsonl": (json.dumps({one: wrong[one] if one == name else None for one in names}) for name in names),
    }[data_format]
    lab.put(f"in/a.{data_format}", "".join(f"{row}\n" for row in rows).encode())
    lab.load("in/*", table, bad_rows=Reject(), checks=Checks(min_rows=0))
    assert {row["column"]: row["value"] for row in lab.rows(f"{table}_rejected")} == wrong
    assert lab.rows(table) == []


@pytest.mark.thorough
@pytest.mark.parametrize("wrapper", ["{}", "Nullable({})"])
def test_an_empty_text_of_json_and_a_truth_value_are_no_numbers(lab: Lab, wrapper: str) -> None:
    lab.connect_one_node()
    table = lab.create("t", f"c0 {wrapper.format('Int32')}")
    for number, text in enumerate(("", "true")):
        put(lab, "jsonl", [text], bare=["true"])
        with pytest.raises(BadValueError, match=coded("value-does-not-fit", "column c0")):
            lab.load("in/*", table, task_id=f"load{number}")
    assert lab.rows(table) == []


@pytest.mark.thorough
def test_a_number_of_seconds_is_a_time_if_asked_for(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "c0 DateTime('UTC')")
    put(lab, "csv-header", ["1700000000"])
    lab.load("in/*", table, select={"c0": "toDateTime(c0)"})
    assert lab.rows(table) == [{"c0": "2023-11-14 22:13:20"}]
