"""docs/uninstall.md: what a load leaves, how it is removed, and what is forgotten with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import TargetError
from tests.failures import coded, own_errors
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

PAGE = Path(__file__).parents[2] / "docs" / "uninstall.md"


def test_the_page_removes_all_but_the_rows(lab: Lab) -> None:
    page = PAGE.read_text().replace("analytics", lab.database)
    drops, leftovers = re.findall(r"^```sql\n(.*?)^```", page, re.M | re.S)
    table = lab.create("t", "n UInt32")
    lab.put("in/a.csv", b"1\n2\n")
    lab.load("in/*.csv", table, data_format=Format("CSV", structure="n UInt32"))
    left = [f"{name}1" for name in re.findall(r"^\| `(ch_s3_(?!ledger)\w+_)…`", page, re.M)]
    for name in left:
        lab.query(f"CREATE TABLE {lab.database}.{name} (n UInt8) ENGINE = Memory")
    assert sorted(row["name"] for row in lab.query(leftovers)) == sorted(left) != []
    for name in left:
        lab.query(f"DROP TABLE {lab.database}.{name}")
    for node in range(lab.sandbox.nodes):
        assert lab.query(leftovers, node=node) == []
        for statement in drops.strip().split(";\n"):
            lab.query(statement.rstrip(";"), node=node)
        shown = lab.query(f"SELECT name FROM system.tables WHERE database = '{lab.database}'", node=node)
        assert [row["name"] for row in shown] == ["t"]
    assert sorted(row["n"] for row in lab.rows(table)) == [1, 2]

    with own_errors(), pytest.raises(TargetError, match=coded("rows-unknown")):
        lab.load("in/*.csv", table, data_format=Format("CSV", structure="n UInt32"))
    assert sorted(row["n"] for row in lab.rows(table)) == [1, 2]
