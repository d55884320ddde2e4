"""``ch-s3 plan`` on a real cluster: it prints what a load would send, and writes nothing."""

from __future__ import annotations

import gzip
import json
import logging
import re

import pytest

from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.load import measure
from ch_s3_lab.bench.latency import delayed
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox


def test_plan_prints_what_the_arguments_ask_for(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.put("in/a.csv.data", gzip.compress(b"id,name\n1,x\n"))
    table = lab.create("t", "id UInt32, name String, kind String DEFAULT 'k'")
    given = lab.arguments(
        table,
        data_format={"format": {"format": "CSV", "compression": "gz"}},
        columns=["id", "name"],
        select={"name": "upper(name)"},
        where="id > 0",
        settings={"max_threads": 3, "max_memory_usage": 1_000_000_000},
    )
    assert main(["plan", "--settings", *given]) == 0
    shown = capsys.readouterr().out
    plan, _, sql = shown.partition("INSERT INTO")
    assert "max_threads = 3 " in plan
    assert "[operator]" in plan
    for words in (
        "(`id`, `name`)",
        "upper(name)",
        "'gz'",
        "id > 0",
        "max_threads = 3",
        "max_memory_usage = 1000000000",
        'log_comment = \'{"dag": "DAG", "task": "TASK", "run": "RUN", "try": 1',
    ):
        assert words in sql
    assert "'***', '***'," in sql
    assert "_access_key" not in sql
    assert lab.sandbox.s3_secret_key not in shown
    assert lab.rows(table) == []


@pytest.mark.thorough
def test_what_another_cluster_would_take(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.put("in/a.csv", b"id\n1\n")
    table = lab.create("t", "id UInt32")
    other = ("--nodes", "12", "--vcpus", "32", "--memory-gib", "128")
    assert main(["plan", *other, *lab.arguments(table)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("on ", "with ", "trust "))]
    assert lines[0].startswith("on        12 x 32 cores, 128.0 GiB: 1")
    settings = "max_insert_threads = 1, min_insert_block_size_bytes = 67108864, max_threads = 32"
    assert lines[1] == f"with      {settings}"
    assert lines[2].startswith("trust     under a second to under a second to load")
    assert main(["plan", "--json", *other, *lab.arguments(table)]) == 0
    found = json.loads(capsys.readouterr().out)
    there = found["elsewhere"]
    assert (there["nodes"], there["vcpus"], there["memory_bytes"]) == (12, 32, 128 * 1024**3)
    least, most = there["trusted_load_seconds"]
    assert least <= there["expected"]["load_seconds"] < most
    assert len(found["nodes"]) == len(lab.nodes())


@pytest.mark.thorough
def test_six_lines_say_what_is_new(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.put("in/a.csv", b"id\n1\n")
    table = lab.create("t", "id UInt32")
    lab.load("in/*.csv", table)
    for new, lines in (
        (False, ["1 CSVWithNames file", "1 file that the table already holds ('in/a.csv')", "no file"]),
        (True, ["2 CSVWithNames files", "1 file that the table already holds ('in/a.csv')", "1 file, 8 B"]),
    ):
        if new:
            lab.put("in/b.csv", b"id\n2\n3\n4\n"[:8])
        capsys.readouterr()
        assert main(["plan", *lab.arguments(table)]) == 0
        shown = capsys.readouterr().out.splitlines()
        heads = ["source", "listed", "skipped", "new", "table", "expected", *(["advice"] if new else [])]
        assert [line.split()[0] for line in shown] == heads
        assert [line[10:] for line in shown[1:4]] == lines
        assert shown[4][10:] == f"{table} (MergeTree), 1 column, mode append"
        assert (shown[5][10:] == "nothing to load") is not new
        assert main(["plan", *lab.arguments(table), "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert (plan["files"], plan["files_skipped"], plan["is_nothing_new"]) == (1, 1, not new)


@pytest.mark.thorough
def test_a_sample_is_validated_and_dropped(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(7):
        lab.put(f"in/{number}.csv", f"id\n{number}\n".encode())
    table = lab.create("t", "id UInt32")
    sample = ("--validate", "--sample-files", "3")
    checks = {"from the first to the last": "min(id) = 0 AND max(id) = 6"}
    assert main(["plan", *lab.arguments(table, *sample, checks=checks)]) == 0
    shown = capsys.readouterr().out
    assert f"validated 3 rows from 3 files into {table}" in shown
    assert "check 'from the first to the last' passed: min(id) = 0 AND max(id) = 6 is true" in shown
    assert "committed: nothing, because of Checks(validate_only=True)" in shown
    assert main(["plan", *lab.arguments(table, *sample, "--json")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["is_validated_only"], report["rows_written"]) == (True, 3)
    assert main(["plan", *lab.arguments(table, *sample, checks={"none": "count() = 0"})]) == 1
    assert "'none': count() = 0 is false (3 = 0)" in capsys.readouterr().err
    assert (lab.rows(table), lab.left_overs()) == ([], [])
    assert lab.loads("--json") == 0
    assert {(one["dag"], one["task"]) for one in json.loads(capsys.readouterr().out)["loads"]} == {("ch-s3", "plan")}
    assert main(["plan", *lab.arguments(table, "--sample-files", "3")]) == 1
    assert "--sample-files says what to validate; add --validate" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_node_may_lack_the_ledger(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """As if the cluster had been extended, or the first load had been into a table of one node."""
    lab.put("in/a.csv", b"id\n1\n")
    lab.put("in/b.csv", b"id\n2\n")
    table = lab.create("t", "id UInt32")
    lab.load("in/a.csv", table)
    for name in ("ch_s3_ledger", "ch_s3_ledger_files"):
        lab.query(f"DROP TABLE {lab.database}.{name} SYNC", node=2)
    assert main(["plan", *lab.arguments(table), "--settings"]) == 0
    assert "INSERT INTO" in capsys.readouterr().out
    lab.load("in/*.csv", table, task_id="other")
    assert sorted(row["id"] for row in lab.rows(table)) == [1, 2]


def test_settings_of_other_formats_and_defaults_are_shown_on_request(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.put("in/a.csv", b"id\n1\n")
    table = lab.create("t", "id UInt32")
    shown = {}
    for wanted in (("--settings",), ("--all",)):
        assert main(["plan", *lab.arguments(table), *wanted]) == 0
        plan, _, _ = capsys.readouterr().out.rpartition("expected  ")
        shown[wanted] = set(re.findall(r"^  (\w+) = ", plan, re.MULTILINE))
    assert shown[("--settings",)] < shown[("--all",)]
    assert {"max_insert_threads", "insert_null_as_default"} <= shown[("--settings",)]
    others = {
        "input_format_csv_empty_as_default",
        "input_format_parquet_max_block_size",
        "max_execution_time",
        "log_queries",
        "limit",
    }
    assert others <= shown[("--all",)] - shown[("--settings",)]


def test_sql_alone_and_json(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.put("in/a.csv", b"id\n1\n")
    table = lab.create("t", "id UInt32")
    assert main(["plan", *lab.arguments(table), "--sql"]) == 0
    sql = capsys.readouterr().out
    assert sql.startswith("INSERT INTO")
    assert lab.sandbox.s3_secret_key not in sql
    assert main(["plan", *lab.arguments(table), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["table"], plan["files"], plan["data_format"], plan["new_table"]) == (table, 1, "CSVWithNames", None)
    assert len(plan["nodes"]) == 3
    assert plan["sql"] == sql.rstrip("\n")
    threads = next(setting for setting in plan["settings"] if setting["name"] == "max_insert_threads")
    assert (threads["value"], threads["origin"]) == (1, "computed")
    assert plan["expected"]["initial_parts"] >= 1


def test_an_unknown_aws_connection_is_one_line(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", "id UInt32")
    assert main(["plan", *lab.arguments(table, "--aws-conn-id", "no_such")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("ch-s3: Airflow has no connection 'no_such' to S3; create it")
    assert error.count("\n") == 1


@pytest.mark.thorough
def test_a_store_so_far_away_that_nothing_is_counted_in_time(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.put("in/a.csv", b"2013-01-01,1\n2013-02-01,2\n")
    table = lab.create("t", "day Date, n UInt32", "MergeTree PARTITION BY day ORDER BY n")
    with delayed(lab.sandbox.s3, 1.5 * measure.SAMPLE_SECONDS) as far, caplog.at_level(logging.INFO):
        lab.connect_aws({"endpoint_url": far.endpoint_url})
        assert main(["plan", *lab.arguments(table)]) == 0
    assert "so the plan assumes one" in caplog.text


ROWS = 300_000
TEXT = gzip.compress(b"".join(b"%d,%s\n" % (number, b"x" * 100) for number in range(ROWS)))


@pytest.mark.parametrize(
    ("name_type", "row_bytes"),
    [
        # a number, a string and its offset
        pytest.param("String", 4 + 100 + 8, id="text"),
        # a number, and an index into the dictionary
        pytest.param("LowCardinality(String)", 4 + 1, id="low-cardinality"),
    ],
)
def test_rows_of_compressed_text_are_counted(
    lab: Lab,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name_type: str,
    row_bytes: int,
) -> None:
    monkeypatch.setattr(measure, "SAMPLE_SECONDS", 60)  # however busy the machine is
    header = gzip.compress(b"id,name\n")
    for number in range(3):
        lab.put(f"in/{number}.csv.gz", header + TEXT)
    table = lab.create("t", f"id UInt32, name {name_type}")
    assert main(["plan", *lab.arguments(table), "--settings"]) == 0
    found = re.search(r"([\d.]+) MiB of rows per node", capsys.readouterr().out)
    assert found is not None
    expected = ROWS * row_bytes / 1024**2  # of one of the three files
    assert expected * 0.9 < float(found[1]) < expected * 1.2 + ROWS * 6 / 1024**2


def test_a_file_whose_rows_cannot_be_counted_is_guessed(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    whole = gzip.compress(b"id,name\n") + TEXT
    lab.put("in/broken.csv.gz", whole[: len(whole) * 3 // 4])
    table = lab.create("t", "id UInt32, name String")
    with caplog.at_level(logging.INFO):
        assert main(["plan", *lab.arguments(table)]) == 0
    assert (
        "cannot count the rows of in/broken.csv.gz, so the plan estimates their size from the stored size"
        in caplog.text
    )
