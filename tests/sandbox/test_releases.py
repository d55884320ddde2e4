"""Loads beside `ch-s3 loads prune`, and over a ledger that other releases of this package wrote to as well."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from tests.failures import coded
from tests.sandbox.conftest import WAIT_SECONDS, Lab, start_worker
from tests.sandbox.few import die_before

pytestmark = pytest.mark.sandbox

LATER_RELEASE = """
from airflow_provider_ch_s3.exactly_once import ledger
known = ledger.asdict
ledger.asdict = lambda record: {**known(record), "colour": "red"}
"""
CSV: dict[str, Any] = {"data_format": Format("CSV", structure="n UInt32")}


@pytest.fixture
def table(lab: Lab) -> str:
    lab.put("in/a.csv", b"1\n2\n")
    return lab.create("t", "n UInt32", "MergeTree ORDER BY n")


def numbers(lab: Lab, table: str) -> list[int]:
    return sorted(row["n"] for row in lab.rows(table))


def write(lab: Lab, table: str, **row: Any) -> None:
    """Write an event to the ledger as another release would."""
    given = {"target": table, "generation": 0, "try_number": 1, "detail": {}, **row}
    if given["event"] == "committed":
        given |= {name: given["detail"][name] for name in ("table_uuids", "load_mode", "partitions")}
    given["detail"] = json.dumps(given["detail"])
    lab.query(f"INSERT INTO {lab.database}.ch_s3_ledger FORMAT JSONEachRow {json.dumps(given)}")


@pytest.mark.parametrize("nth", [4, 7], ids=["before-the-beginnings-go", "before-the-ends-go"])
@pytest.mark.thorough
def test_a_load_between_two_steps_of_prune(lab: Lab, table: str, nth: int) -> None:
    for name in ("first", "second"):
        lab.load("in/*.csv", table, task_id=name, mode="replace_table", **CSV)
    lab.put("in/b.csv", b"3\n")
    left = [nth]
    real = ClickHouseS3Hook._run

    def run(hook: ClickHouseS3Hook, statement: Statement, *given: Any, **named: Any) -> Any:
        # three nodes delete the files, then the starts of attempts, then their ends
        if statement.name in ("prune_ledger", "prune_ledger_files"):
            left[0] -= 1
            if left[0] == 0:
                lab.load("in/*.csv", table, task_id="between", **CSV)
        return real(hook, statement, *given, **named)

    lab.monkeypatch.setattr(ClickHouseS3Hook, "_run", run)
    assert lab.loads("prune", "--older-than-days", "0") == 0
    assert left[0] < 0
    assert numbers(lab, table) == [1, 2, 3]
    assert lab.load("in/*.csv", table, task_id="after", **CSV)["files_skipped"] == 2


@pytest.mark.thorough
def test_a_ledger_of_several_releases(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    lab.load("in/*.csv", table, **CSV)
    uuids = sorted(
        {
            row["uuid"]
            for row in lab.everywhere(
                f"SELECT uuid FROM system.tables WHERE name = 't' AND database = '{lab.database}'"
            )
        }
    )
    committed = {"load_mode": "append", "partitions": {"all": 0}, "table_uuids": uuids, "colour": "red"}
    # from an earlier release, with few fields; from a later one, with unknown fields and kinds
    write(lab, table, load_id="ch-s3-" + "a" * 20, attempt=3, epoch=3, event="planned")
    write(lab, table, load_id="ch-s3-" + "a" * 20, attempt=3, epoch=4, event="committed", detail=committed)
    report = {"query_id": "q", "rows_written": 5, "colour": "red", "nodes": {"n": {"files": 1, "colour": "red"}}}
    detail = {**committed, "report": report, "commit_seconds": 0.1}
    planned = {"load_mode": "append", "data_format": "CSV", "colour": {"red": 1}}
    write(lab, table, load_id="ch-s3-" + "b" * 20, attempt=5, epoch=5, event="planned", detail=planned)
    write(lab, table, load_id="ch-s3-" + "b" * 20, attempt=5, epoch=6, event="committed", detail=detail)
    write(lab, table, load_id="ch-s3-" + "b" * 20, attempt=5, epoch=7, event="admired", detail=detail)
    lab.put("in/b.csv", b"3\n")
    assert lab.load("in/*.csv", table, task_id="second", **CSV)["files_skipped"] == 1
    assert numbers(lab, table) == [1, 2, 3]
    assert lab.loads() == 0
    assert lab.loads("show", "ch-s3-" + "b" * 20) == 0
    assert "loaded 5 rows" in capsys.readouterr().out
    assert lab.loads("prune", "--older-than-days", "0") == 0


def test_a_commit_of_a_later_release_is_finished(lab: Lab, table: str) -> None:
    before = LATER_RELEASE + die_before("move_partitions", 1, signal.SIGKILL)
    with start_worker(lab, table, before=before, **CSV) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    (found,) = lab.everywhere(f"SELECT detail FROM {lab.database}.ch_s3_ledger WHERE event = 'committing'")
    assert json.loads(found["detail"])["colour"] == "red"
    lab.load("in/*.csv", table, try_number=2, **CSV)
    assert numbers(lab, table) == [1, 2]
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_a_load_mode_of_a_later_release_is_refused(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table, **CSV)
    ledger = f"{lab.database}.ch_s3_ledger"
    later = "'swap' AS load_mode, attempt + 1 AS attempt, epoch + 1 AS epoch"
    lab.query(
        f"INSERT INTO {ledger} SELECT * REPLACE ({later}) FROM clusterAllReplicas("
        f"'{lab.sandbox.cluster}', '{lab.database}', 'ch_s3_ledger') WHERE event = 'committed'"
    )
    with pytest.raises(LoadError, match=coded("provider-version-differs", "-insert", "mode='swap'")):
        lab.load("in/*.csv", table, task_id="second", **CSV)
    assert numbers(lab, table) == [1, 2]
    assert lab.left_overs() == []
