"""``ch-s3 doctor`` on a real cluster: each thing that a load needs, there and missing."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ch_s3.cli import main
from tests.sandbox.conftest import Lab
from tests.sandbox.few import EVEN_AND_ODD, FEW, put_numbers

pytestmark = pytest.mark.sandbox

CONNECTION = ["connection", "nodes", "clocks", "ddl", "addresses", "ledger"]
LOAD = ["arguments", "files", "table", "rights", "plan", "reading", "disk"]


@pytest.fixture
def table(lab: Lab) -> str:
    put_numbers(lab, "in/a.csv", FEW)
    return lab.create("t", "n UInt32", EVEN_AND_ODD)


def examine(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[str, str]]:
    """Run the command; returns check → state and text."""
    code = main(["doctor", *arguments, "--json"])
    found = {one["check"]: (one["state"], one["text"]) for one in json.loads(capsys.readouterr().out)}
    assert code == int(any(state == "failed" for state, _ in found.values()))
    return found


def test_all_is_there(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *lab.arguments(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"✔ {check}" for check in (*CONNECTION, *LOAD)]
    said = "\n".join(lines)
    for words in (
        "user 'loader', database ",
        "3 nodes with",
        "DDL mode per_host",
        "ch_s3_ledger, in the database of each table",
        "1 file, 80 B, listed by this machine",
        f"{table} (MergeTree) on 3 nodes",
        "3 nodes can read 'in/a.csv'",
    ):
        assert words in said
    assert lab.everywhere(f"SELECT name FROM system.tables WHERE database = '{lab.database}'") == [{"name": "t"}] * 3


def test_a_server_that_is_away_ends_what_rests_on_it(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.connect_clickhouse(port=1)
    found = examine(capsys, "--conn-id", "ch")
    assert list(found) == CONNECTION
    assert found["connection"][0] == "failed"
    assert "no answer from ClickHouse at 127.0.0.1:1" in found["connection"][1]
    assert {found[check] for check in ("nodes", "clocks", "ledger")} == {
        ("skipped", "not checked without connection"),
        ("skipped", "not checked without nodes"),
    }


def test_a_store_that_refuses_and_a_table_that_one_node_lacks(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.connect_aws(password="wrong")
    found = examine(capsys, *lab.arguments(table))
    assert (found["files"][0], found["table"][0], found["plan"][0]) == ("failed", "ok", "skipped")
    assert "SignatureDoesNotMatch" in found["files"][1]
    lab.connect_aws()
    lab.sandbox.query(f"DROP TABLE {table} SYNC", node=2)
    found = examine(capsys, *lab.arguments(table))
    assert {check for check, (state, _) in found.items() if state == "failed"} == {"table"}
    assert f"{table} " in found["table"][1]
