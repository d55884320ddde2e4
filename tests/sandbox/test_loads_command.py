"""``ch-s3 loads``: what the ledger shows, and what may be pruned from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Checks, Format
from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.errors import LoadError
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

CSV: dict[str, Any] = {"data_format": Format("CSV", structure="day Date, n UInt32")}


@pytest.fixture
def table(lab: Lab) -> str:
    lab.put("in/a.csv", b"2013-01-01,1\n2013-01-02,2\n")
    return lab.create("t", "day Date, n UInt32", "MergeTree PARTITION BY day ORDER BY n")


def test_the_list_and_the_story_of_a_load(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.load("in/*.csv", table, **CSV)
    assert lab.loads() == 0
    load_id = report["query_id"].removesuffix("-insert").rpartition("-")[0].rpartition("-")[0]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(load_id)]
    for text in (table, "lab.load", "append", "committed"):
        assert text in line
    assert line.split()[-3:-1] == ["1", "2"]
    assert lab.loads("show", load_id) == 0
    told = capsys.readouterr().out
    for text in (f"{report['query_id']}: committed", "planned by try 1", "committing by try 1", "2 rows staged"):
        assert text in told


@pytest.mark.thorough
def test_the_list_can_be_narrowed(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    lab.load("in/*.csv", table, **CSV)
    capsys.readouterr()
    for narrowed, count in (
        (["--dag", "lab", "--table", "t", "--state", "committed", "--since", "1h"], 1),
        (["--state", "running"], 0),
        (["--since", "0.00001d"], 0),
    ):
        assert lab.loads(*narrowed) == 0
        assert (narrowed, len(capsys.readouterr().out.splitlines()) - 1) == (narrowed, count)
        assert lab.loads(*narrowed, "--json") == 0
        assert len(json.loads(capsys.readouterr().out)["loads"]) == count


@pytest.mark.thorough
def test_a_table_has_one_name_in_the_list(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether a task names the database or not; so a task finds the loads of the other by the name in the list."""
    lab.connect_clickhouse(schema=lab.database)
    lab.load("in/*.csv", table, **CSV)
    lab.put("in/b.csv", b"2013-01-03,3\n")
    lab.load("in/*.csv", table.removeprefix(f"{lab.database}."), **CSV)
    for narrowed in ([], ["--table", table], ["--table", "t"]):
        capsys.readouterr()
        assert lab.loads(*narrowed) == 0
        assert capsys.readouterr().out.count(f" {table} ") == 2
    everywhere = lab.distribute(table).removeprefix(f"{lab.database}.")
    lab.put("in/c.csv", b"2013-01-04,3\n")
    lab.load("in/*.csv", everywhere, **CSV)
    for named in (everywhere, f"{lab.database}.{everywhere}"):
        capsys.readouterr()
        assert lab.loads("--table", named) == 0
        assert f" {lab.database}.{everywhere} " in capsys.readouterr().out
    for elsewhere in ("other.t", f"other.{everywhere}"):
        assert lab.loads("--table", elsewhere) == 1
        assert f"no load into '{elsewhere}'" in capsys.readouterr().err
    assert lab.loads("--state", "running") == 0
    assert (
        capsys.readouterr().out == f"the ledger {lab.database}.ch_s3_ledger has no load that these options select\n"
    )


@pytest.mark.thorough
def test_a_failed_load_says_why(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.distribute(table)
    with pytest.raises(LoadError) as caught:
        lab.load("in/*.csv", table, checks=Checks(min_rows=3), **CSV)
    for named in (table, table.removesuffix("_all")):  # the name that the task gave, and the name in the ledger
        capsys.readouterr()
        assert lab.loads("--table", named) == 0
        heads, line = capsys.readouterr().out.splitlines()
        assert f" {table} " in line
        assert line.endswith(f" {caught.value}")
        assert "abandoned" in line
        assert heads.endswith("WHY")
    assert lab.loads("show", line.split()[0]) == 0
    told = capsys.readouterr().out
    assert f"\n  why: {caught.value}\n" in told
    assert "its rows are in" not in told
    lab.load("in/*.csv", table, try_number=2, max_tries=1, **CSV)
    capsys.readouterr()
    assert lab.loads("--json") == 0
    shown = [(one["state"], one["error"]) for one in json.loads(capsys.readouterr().out)["loads"]]
    assert shown == [("committed", ""), ("abandoned", str(caught.value))]


@pytest.mark.thorough
def test_what_the_ledger_has_is_named_instead_of_an_empty_list(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.load("in/*.csv", table, **CSV)
    for narrowed, said in (
        (["--dag", "other"], "has no load of the DAG 'other'; its latest loads are of lab"),
        (["--table", f"{lab.database}.u"], f"has no load into '{lab.database}.u'; it has loads into {table}"),
    ):
        capsys.readouterr()
        assert lab.loads(*narrowed) == 1
        assert said in capsys.readouterr().err
        assert lab.loads(*narrowed, "--json") == 0
        assert json.loads(capsys.readouterr().out)["loads"] == []


@pytest.mark.thorough
def test_an_unknown_load_and_a_missing_ledger(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.loads() == 1
    assert f"there is no ledger {lab.database}.ch_s3_ledger yet" in capsys.readouterr().err
    lab.load("in/*.csv", table, **CSV)
    assert lab.loads("show", "ch-s3-nothing") == 1
    assert "has no load 'ch-s3-nothing'; `ch-s3 loads` lists" in capsys.readouterr().err


def test_a_name_that_the_server_does_not_have_is_refused(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["loads", "--conn-id", "ch", "--database", "nope"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("ch-s3: --database 'nope': the connected server has no database of this name")
    assert lab.database in said
    assert lab.loads("--cluster", "nope") == 1
    said = capsys.readouterr().err
    assert said.startswith("ch-s3: --cluster 'nope': the connected server has no cluster of this name")
    assert lab.sandbox.cluster in said


@pytest.mark.thorough
def test_json_is_all_that_is_on_the_standard_output(lab: Lab, table: str) -> None:
    """Airflow logs to it from its import on: here all that it does, otherwise warnings."""
    lab.load("in/*.csv", table, **CSV)
    command = ["loads", "--conn-id", "ch", "--database", lab.database, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "airflow_provider_ch_s3", *command],
        env={**os.environ, "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [load["table"] for load in json.loads(done.stdout)["loads"]] == [table]
    assert "debug" in done.stderr


@pytest.mark.thorough
def test_pruning_forgets_no_file_that_the_table_holds(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.load("in/*.csv", table, **CSV)
    assert lab.loads("prune", "--older-than-days", "1") == 0
    assert lab.loads("prune", "--older-than-days", "0") == 0
    assert "deleted the records of 0 attempts" in capsys.readouterr().out
    report = lab.load("in/*.csv", table, task_id="third", **CSV)
    assert (report["files_skipped"], report["rows_written"]) == (1, 0)
    lab.load("in/*.csv", table, task_id="replaced", mode="replace_table", **CSV)
    assert lab.loads("prune", "--older-than-days", "0") == 0
    assert "deleted the records of 1 attempt\n" in capsys.readouterr().out
    assert lab.load("in/*.csv", table, task_id="fourth", **CSV)["files_skipped"] == 1
    assert len(lab.rows(table)) == 2


@pytest.mark.thorough
def test_pruning_keeps_of_old_loads_what_others_look_up(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        lab.put(f"in/b{number}.csv", b"2013-01-03,3\n")
        lab.load("in/*.csv", table, task_id=f"load{number}", **CSV)
    assert lab.loads("prune", "--older-than-days", "0") == 0
    capsys.readouterr()
    assert lab.loads() == 0
    # the last load may still be continued by a retry, so its records stay
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ch-s3-")]
    assert "lab.load2" in line
    kept = lab.everywhere(
        f"SELECT event, detail = '{{}}' AS is_forgotten FROM {lab.database}.ch_s3_ledger WHERE event != 'alive'"
    )
    assert sorted((row["event"], row["is_forgotten"]) for row in kept if row["event"] == "committed") == [
        ("committed", 0),
        ("committed", 1),
        ("committed", 1),
    ]
    assert sum(row["event"] == "locked" for row in kept) == 1
    lab.put("in/c.csv", b"2013-01-04,4\n")
    assert lab.load("in/*.csv", table, task_id="after", **CSV)["files_skipped"] == 4
    assert len(lab.rows(table)) == 6
