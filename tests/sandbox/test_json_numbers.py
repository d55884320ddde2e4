"""Numbers in objects of JSON keep their digits, or the load fails."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.errors import ChS3Error
from tests.marks import thorough
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

KEPT = [
    '{"a":18446744073709551615,"b":-9223372036854775808,"d":0.30000000000000004,"e":5e-324}',
    '{"a":"0.1234567890123456789","b":[1,{"c":123456789012345678}],"c":"x\\"0.1234567890123456789"}',
    '{"a":7.8100000000000005,"b":0,"c":1.7976931348623157e308}',
]


def put(lab: Lab, data_format: str, *objects: str) -> None:
    """Write a file whose column ``v`` has objects, and ``n`` lists of them where the format has lists."""
    if data_format == "parquet":
        lab.put_parquet("in/a.parquet", {"v": pa.array(objects), "n": pa.array([[one] for one in objects])})
        return
    lines = [f'{{"v":{one},"n":[{one}]}}' for one in objects]
    if data_format == "csv":
        lines = ['"{}"'.format(one.replace('"', '""')) for one in objects]
    lab.put(f"in/a.{data_format}", "".join(f"{line}\n" for line in lines).encode())


def create(lab: Lab, data_format: str) -> str:
    lab.connect_one_node()
    return lab.create("t", "v JSON" if data_format == "csv" else "v JSON, n Array(JSON)")


@pytest.mark.parametrize("data_format", ["jsonl", "parquet", thorough("csv")])
def test_numbers_that_are_kept(lab: Lab, data_format: str) -> None:
    table = create(lab, data_format)
    put(lab, data_format, *KEPT)
    lab.load("in/*", table)
    columns = "v::String AS v" if data_format == "csv" else "v::String AS v, n[1]::String AS n"
    found = [{key: json.loads(text) for key, text in row.items()} for row in lab.rows(table, columns=columns)]
    assert sorted(found, key=str) == sorted(
        [dict.fromkeys(row, json.loads(one)) for one in KEPT for row in found[:1]], key=str
    )


@pytest.mark.parametrize(
    ("data_format", "number"),
    [
        ("jsonl", "0.1234567890123456789"),
        ("parquet", "18446744073709551616"),
        *(
            thorough("jsonl", number)
            for number in (
                "-9223372036854775809",
                "1234567890123456789.0",
                "1e-400",
                "1.2345678901234567e-310",
                "1e400",
            )
        ),
        thorough("csv", "0.1234567890123456789"),
    ],
)
def test_a_number_that_would_be_rounded_is_refused(lab: Lab, data_format: str, number: str) -> None:
    table = create(lab, data_format)
    put(lab, data_format, f'{{"a":[{{"b":{number}}}]}}')
    with pytest.raises(ChS3Error, match=r"column [vn]: .* (is not a valid|does not fit) \S+") as told:
        lab.load("in/*", table)
    assert number in told.value.sentence
    assert lab.rows(table) == []


@pytest.mark.thorough
def test_objects_that_are_missing(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "id Int64, v JSON, w Nullable(JSON), n Array(JSON)")
    lab.put("in/a.jsonl", b'{"id":1}\n{"id":2,"v":null,"w":null,"n":[]}\n{"id":3,"v":{},"w":{"a":1},"n":[{}]}\n')
    lab.load("in/*", table)
    found: list[dict[str, Any]] = sorted(lab.rows(table), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "v": {}, "w": None, "n": []},
        {"id": 2, "v": {}, "w": None, "n": []},
        {"id": 3, "v": {}, "w": {"a": 1}, "n": [{}]},
    ]


@pytest.mark.parametrize("kind", ["JSON(a Int32)", thorough("JSON(SKIP a)"), thorough("Array(JSON(a Int32))")])
def test_typed_paths_of_text_in_typed_files_are_refused(lab: Lab, kind: str) -> None:
    lab.connect_one_node()
    table = lab.create("t", f"v {kind}")
    text = '{"a":3.7}'
    lab.put_parquet("in/a.parquet", {"v": [[text] if kind.startswith("Array") else text]})
    with pytest.raises(ChS3Error, match="ClickHouse would convert its typed paths in its own ways"):
        lab.load("in/*", table)
