"""The messages about files and names on older servers, which use different words than 26.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Csv, NamedCollection
from airflow_provider_ch_s3.errors import ChS3Error
from tests.failures import coded
from tests.sandbox.conftest import Lab
from tests.sandbox.test_load import TEXTS
from tests.sandbox.test_truncated import TEXT, compress
from tests.sandbox.topologies import only_on
from tests.sandbox.written import parquet_file

pytestmark = [pytest.mark.sandbox, pytest.mark.thorough, pytest.mark.every_case]

SERVERS = only_on("on-cluster", "old")


@SERVERS
@pytest.mark.parametrize("case", ["csv", "behind-the-sample", "missing", "jsonl"])
def test_a_value_of_a_text(replicated_lab: Lab, case: str) -> None:
    lab = replicated_lab
    kind, ending, body, what, row = TEXTS[case]
    lab.put(f"in/a.{ending}", compress("gz", body) if ending.endswith("gz") else body)
    below = "" if ending == "jsonl" else " below the header"
    found = refuse(lab, f"id UInt32, n {kind}")
    assert found.sentence.splitlines()[:2] == [
        f"column n: {what}",
        f"row {row:,}{below} of {lab.uri(f'in/a.{ending}')}",
    ]
    assert (found.code, found.is_final) == ("value-does-not-fit", True)


@SERVERS
def test_a_value_of_a_file_with_types(replicated_lab: Lab) -> None:
    lab = replicated_lab
    lab.put("in/a.parquet", parquet_file(pa.table({"n": pa.array([1, 2, 70_000], pa.int32())})))
    found = refuse(lab, "n UInt16")
    assert found.sentence.splitlines()[:2] == [
        "column n: '70000' is not a valid UInt16",
        f"row 3 of {lab.uri('in/a.parquet')}",
    ]


@SERVERS
@pytest.mark.parametrize(
    ("key", "body", "columns", "arguments", "said"),
    [
        pytest.param(
            "in/a.csv.gz",
            compress("gz", TEXT)[:200_000],
            "n UInt32, v String",
            {},
            ("file-truncated", "in/a.csv.gz' is damaged or incomplete", "upload the file again"),
            id="gzip-cut-off",
        ),
        pytest.param(
            "in/a.csv",
            b"n\n1\n",
            "n UInt8",
            {"credentials": NamedCollection("sandbox_s4")},
            ("collection-missing", "'sandbox_s4'", "this user sees", "sandbox_s3"),
            id="collection",
        ),
        pytest.param(
            "in/a.csv",
            b"n,s\n1,a\n",
            "n UInt8, s String",
            {"data_format": Csv(delimiter=";")},
            ("delimiter-wrong", "which is 'n,s'", "Csv(delimiter=',')"),
            id="delimiter",
        ),
        pytest.param(
            "in/a.csv",
            b"n;amount\n1;7\n2;-1,50\n",
            "n UInt8, amount Decimal(9, 2)",
            {},
            ("value-does-not-fit", "column amount: '-1,50'", "row 2", "select={"),
            id="decimal-comma",
        ),
    ],
)
def test_a_file_or_a_name(
    replicated_lab: Lab, key: str, body: bytes, columns: str, arguments: dict[str, Any], said: Sequence[str]
) -> None:
    replicated_lab.put(key, body)
    code, *words = said
    refuse(replicated_lab, columns, match=coded(code, *words), **arguments)


@SERVERS
def test_a_database(replicated_lab: Lab) -> None:
    lab = replicated_lab
    lab.put("in/a.csv", b"n\n1\n")
    table = lab.create("t", "n UInt8")
    lab.connect_clickhouse(schema="analytcs")
    said = coded("database-missing", "'ch'", "'analytcs'", "Database (schema)", lab.database)
    with pytest.raises(ChS3Error, match=said):
        lab.load("in/*", table)


def refuse(lab: Lab, columns: str, *, match: str | None = None, **arguments: Any) -> ChS3Error:
    """Load the files into a new table, which stays empty, and return the error."""
    table = lab.create("t", columns)
    with pytest.raises(ChS3Error, match=match) as refused:
        lab.load("in/*", table, **arguments)
    assert lab.rows(table) == []
    return refused.value
