"""``ch-s3 tune`` on a real cluster: it measures, prints its result, and leaves nothing behind."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from airflow.utils import session as airflow_session

from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.cluster.fields import CONNECTION_FIELDS
from airflow_provider_ch_s3.load import measure as past_loads
from airflow_provider_ch_s3.table.target import TableName, short_hash
from airflow_provider_ch_s3.trials import measure, search
from tests.sandbox.conftest import ROWS, SLOW, SLOW_FILES, Lab, wait_until

pytestmark = pytest.mark.sandbox


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(search, "ROUNDS", 1)


@pytest.fixture
def table(lab: Lab) -> str:
    for number in range(48):
        lab.put_parquet(f"in/{number}.parquet", {"n": [number], "name": ["x"]})
    return lab.create("t", "n Int64, name String")


def scratch_tables(lab: Lab) -> list[dict[str, Any]]:
    return lab.everywhere(f"SELECT name FROM system.tables WHERE database = '{lab.database}' AND name != 't'")


@pytest.mark.thorough
def test_what_is_printed_is_the_connections_extra(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_loads, "MIN_VOLUME_BYTES", 1)
    assert main(["tune", *lab.arguments(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (first,) = (line for line in lines if line.startswith(f"up to {search.MOST_LOADS} loads of 48 files, "))
    assert f"into a scratch table next to {table}: about" in first
    measured = {line.partition(":")[0] for line in lines}
    assert {"server defaults", "our plan"} <= measured
    assert [name for name in measured if name.endswith("per core")] != []
    assert lines[-2] == "for the extra of connection 'ch' (--save writes it there):"
    extra = json.loads(lines[-1])
    assert "calibration" in {field.name for field in CONNECTION_FIELDS}
    assert extra["calibration"]["core_seconds_per_gib"] > 0
    assert lab.rows(table) == []
    assert scratch_tables(lab) == []
    # and a plan accepts what was printed
    lab.connect_clickhouse(
        {"vcpus_per_node": 2, "calibration": {**extra["calibration"], "insert_threads_per_core": 1.5}}
    )
    capsys.readouterr()
    assert main(["plan", *lab.arguments(table), "--settings"]) == 0
    shown = capsys.readouterr().out
    assert "max_insert_threads = 3 " in shown
    assert "based on the measurements of `ch-s3 tune`" in shown


def test_more_than_allowed_is_not_begun_unasked(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    assert main(["tune", *lab.arguments(table, "--max-seconds", "1")]) == 1
    error = capsys.readouterr().err.splitlines()[-1]  # after Airflow's log
    assert error.startswith("ch-s3: not tuned: it would take more than 1.0 s or 50% of the memory; raise")
    assert lab.inserts() == []
    assert scratch_tables(lab) == []


@pytest.mark.thorough
def test_saving_needs_a_connection_in_airflows_database(
    lab: Lab, table: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test process has no such connection; tests/airflow tests writing to a real one."""
    monkeypatch.setattr(airflow_session, "create_session", EmptyDatabase)
    assert main(["tune", *lab.arguments(table, "--save")]) == 1
    assert "Airflow's database has no connection 'ch', so --save cannot change it; leave" in capsys.readouterr().err
    assert lab.inserts() == []


class EmptyDatabase:
    def __enter__(self) -> EmptyDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def scalar(self, _: object) -> None:
        return None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.thorough
def test_a_search_that_is_interrupted_leaves_nothing(lab: Lab, number: signal.Signals) -> None:
    slow = lab.create("t", "n Int64")
    for file in range(SLOW_FILES):
        rows = ROWS[file::SLOW_FILES]
        lab.put_parquet(f"in/{file:02}.parquet", {"n": [row["n"] for row in rows]})
    command = ["tune", *lab.arguments(slow, "--yes", where=SLOW["where"], settings=SLOW["settings"])]
    searching = subprocess.Popen(
        [sys.executable, "-m", "airflow_provider_ch_s3", *command],
        # a shell that runs the tests in the background makes them ignore SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_until(lambda: lab.query("SELECT 1 FROM system.processes WHERE query_kind = 'Insert'"), "the first load")
    searching.send_signal(number)
    assert searching.wait(60) != 0
    assert scratch_tables(lab) == []
    assert lab.everywhere("SELECT query_id FROM system.processes WHERE query_kind = 'Insert'") == []


@pytest.mark.thorough
def test_what_a_killed_search_left_is_removed(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    scratch = short_hash(TableName(database=lab.database, table="t"))
    lab.ddl(f"CREATE TABLE {lab.database}.ch_s3_tune_{scratch} (other String) ENGINE = Memory")
    assert main(["tune", *lab.arguments(table)]) == 0
    assert scratch_tables(lab) == []
    assert "these files have too few rows to measure the time for a GiB; tune" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_next_plan_starts_from_what_the_last_load_measured(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_loads, "MIN_VOLUME_BYTES", 1)
    for number in range(3):
        lab.put(f"in/{number}.csv.gz", gzip.compress("".join(f"{n},x\n" for n in range(20_000)).encode()))
    table = lab.create("t", "n UInt64, name String")
    first = lab.load("in/*", table, mode="replace_table")
    assert main(["plan", *lab.arguments(table), "--settings"]) == 0
    said = " ".join(capsys.readouterr().out.split())  # its lines are wrapped
    assert f"based on the measurements of {first['query_id']}" in said
    second = lab.load("in/*", table, mode="replace_table", task_id="again")
    # a number of 8 bytes and a string of 9 or more; without the first load, the size would be a guess from the files
    assert second["volume_bytes"] == first["volume_bytes"] >= 60_000 * 17
    expected = first["predicted"], second["predicted"]
    actual = second["peak_memory_bytes"]
    assert abs(expected[1]["peak_memory_bytes"] - actual) <= abs(expected[0]["peak_memory_bytes"] - actual)


@pytest.mark.thorough
def test_partitions_are_counted_before_the_load(lab: Lab) -> None:
    for day in range(1, 21):
        lab.put_parquet(f"in/{day:02}.parquet", {"day": [day] * 50, "n": list(range(50))})
    daily = lab.create("daily", "day Int64, n Int64", "MergeTree PARTITION BY day ORDER BY n")
    mixed = lab.create("mixed", "day Int64, n Int64", "MergeTree PARTITION BY (n % 5, day > 0) ORDER BY n")
    for table, columns, parts in ((daily, {}, 20), (mixed, {}, 5), (mixed, {"n": "n + day * 0"}, 5)):
        report = lab.load("in/*", table, mode="replace_table", select=columns)
        written = report["initial_parts"]
        assert written >= parts, table
        assert 1 / 1.3 <= report["predicted"]["initial_parts"] / written <= 1.3, (table, report["predicted"], written)
