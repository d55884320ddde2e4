"""What a ledger with real loads shows: finished, failed and open ones, a lock that is held, and files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Checks, Format
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError, LoadError, ServerError
from airflow_provider_ch_s3.exactly_once.ledger import ledger_name
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.plugins.ledger_access import reading_ledger
from airflow_provider_ch_s3.reporting import view as ledger_view
from airflow_provider_ch_s3.reporting.values import OPEN, FileRecord, Selection
from airflow_provider_ch_s3.reporting.view import LedgerView
from tests.failures import coded
from tests.sandbox.conftest import SLOW, Background, Freeze, Lab, put_slow_files, wait_until
from tests.sandbox.gates import Gate

pytestmark = pytest.mark.sandbox

CSV: dict[str, Any] = {"data_format": Format("CSV", structure="day Date, n UInt32")}
MONITORING = Path(__file__).parents[2] / "docs" / "monitoring.md"


@pytest.fixture
def view(lab: Lab) -> Iterator[LedgerView]:
    with closing(ClickHouseS3Hook(clickhouse_conn_id="ch")) as hook:
        yield LedgerView(client=hook, cluster=lab.sandbox.cluster, ledger=ledger_name(None, lab.database))


@pytest.fixture
def days(lab: Lab, freeze: Freeze) -> str:
    """A table with two committed loads, a failed one, and one that is planned and holds the lock."""
    table = lab.create("days", "day Date, n UInt32", "MergeTree PARTITION BY day ORDER BY n")
    lab.put("in/a.csv", b"2013-01-01,1\n2013-01-02,2\n")
    lab.load("in/*.csv", table, task_id="first", **CSV)
    lab.put("in/b.csv", b"2013-01-03,3\n")
    lab.load("in/*.csv", table, task_id="second", **CSV)
    lab.put("few/c.csv", b"2013-01-03,3\n")
    with pytest.raises(LoadError):
        lab.load("few/*.csv", table, task_id="fails", checks=Checks(min_rows=2), **CSV)
    lab.put("in/d.csv", b"2013-01-04,4\n")
    # its plan is in the ledger, and it still holds the lock
    freeze(Gate("create_staging"), "in/*.csv", table, task_id="stays", **CSV)
    return table


def states(view: LedgerView, **selection: Any) -> list[tuple[str, str]]:
    return [(one.task, one.state) for one in view.page(Selection(**selection)).loads]


def turn(read: Callable[[str], Any]) -> Iterator[Any]:
    """Turn the pages, from the first to the last one."""
    after = ""
    for _ in range(10):
        page = read(after)
        yield page
        if not (after := page.next):
            return
    pytest.fail("the pages have no end")


ALL = [("stays", "planned"), ("fails", "abandoned"), ("second", "committed"), ("first", "committed")]


@pytest.mark.thorough
def test_the_page_of_a_ledger(lab: Lab, view: LedgerView, days: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = lab.create("other", "day Date, n UInt32")
    lab.load("in/a.csv", other, task_id="elsewhere", mode="replace_table", **CSV)
    capsys.readouterr()  # what the loads have logged
    assert lab.loads("--json") == 0
    page = json.loads(capsys.readouterr().out)
    assert [(one["task"], one["state"]) for one in page["loads"]] == [("elsewhere", "committed"), *ALL]
    elsewhere, stays, fails, second, _ = page["loads"]
    assert page["ledger"] == f"{lab.database}.ch_s3_ledger"
    told = ("table", "dag", "run", "load_mode", "files", "files_skipped", "rows", "is_open")
    assert [elsewhere[name] for name in told] == [other, "lab", lab.database, "replace_table", 1, 0, 2, False]
    assert [second[name] for name in told] == [days, "lab", lab.database, "append", 1, 1, 1, False]
    assert [event["event"] for event in second["events"]] == ["planned", "committing", "committed"]
    assert (second["seconds"] > 0, second["ended"] > second["started"]) == (True, True)
    assert [fails[name] for name in ("rows", "seconds", "is_broken")] == [None, None, False]
    assert [event["event"] for event in fails["events"]] == ["planned", "abandoned"]
    assert [one["query_id"] for one in page["open"]] == [stays["query_id"]]
    assert (stays["is_open"], stays["ended"], stays["age_seconds"] > 0) == (True, None, True)
    (lock,) = page["locks"]
    assert (lock["table"], lock["load_id"]) == (days, stays["load_id"])
    assert lock["owner"] == f"lab.stays of run {lab.database}"
    assert 0 <= lock["silent_seconds"] <= lock["age_seconds"]
    assert [(one["table"], one["commits"], one["idle_seconds"] >= 0) for one in page["tables"]] == [
        (days, 2, True),
        (other, 1, True),
    ]

    assert states(view, table=days) == ALL
    assert states(view, states=["abandoned"]) == ALL[1:2]
    assert states(view, states=OPEN) == ALL[:1]
    assert states(view, table=days, states=["committed"], days=1.0) == ALL[2:]
    assert states(view, days=1e-9) == []
    with pytest.raises(ConfigError, match=coded("argument-invalid", "page token")):
        view.page(Selection(after="[1]"))
    pages = turn(lambda after: view.page(Selection(table=days, after=after, limit=1)))
    assert [(one.task, one.state) for page in pages for one in page.loads] == ALL


@pytest.mark.push
def test_the_page_says_how_far_a_running_load_is(
    lab: Lab, view: LedgerView, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lab.create("t", "n UInt32")
    lab.put("few/a.csv", b"1\n")
    lab.load("few/*.csv", table, task_id="first")  # creates the ledger
    put_slow_files(lab)
    task = background(lab.load, "in/*.csv", table, **SLOW)
    shown: dict[str, Any] = {}  # of CSV, whose rows nobody knows before

    def is_shown() -> bool:
        page = view.page(Selection())
        shown.update({one.query_id: page.progress.get(one.query_id) for one in page.open})
        return any(one and not one.text.startswith("0 rows") for one in shown.values())

    wait_until(is_shown, "the progress of the load")
    (progress,) = shown.values()
    assert progress.done is None
    assert re.search(r"^[\d,]+ rows, [\d.,]+ rows?/s$", progress.text)

    def refuse(*_: object) -> None:
        raise ServerError("server-refused", "no", server_code=497)

    monkeypatch.setattr(ledger_view, "read_running", refuse)
    assert (len(view.page(Selection()).open), view.page(Selection()).progress) == (1, {})
    monkeypatch.undo()
    task.result()
    assert view.page(Selection()).progress == {}


def test_the_page_in_airflow_reads_only(lab: Lab) -> None:
    table = lab.create("t", "day Date, n UInt32")
    lab.put("in/a.csv", b"2013-01-01,1\n")
    lab.load("in/*.csv", table, **CSV)
    with reading_ledger("ch", f"{lab.database}.ch_s3_ledger") as (view, ledgers):
        assert f"{lab.database}.ch_s3_ledger" in ledgers
        assert len(view.page(Selection()).loads) == 1
        settings = view.client.query(
            Statement(text="SELECT getSetting('readonly') AS readonly, getSetting('max_execution_time') AS seconds")
        )
        assert settings == [{"readonly": 2, "seconds": 15}]
        with pytest.raises(ServerError, match=coded("server-error", "readonly")):
            view.client.execute(Statement(text=f"DROP TABLE {table}"))
    missing = f"{lab.database}.nothing"
    with (
        pytest.raises(ConfigError, match=coded("ledger-missing", missing)),
        reading_ledger("ch", missing),
    ):
        pass


EVIL = {
    "view": (
        "CREATE TABLE {evil}_secret (s String) ENGINE = MergeTree ORDER BY s",
        "CREATE VIEW {evil} AS SELECT * REPLACE ((SELECT any(s) FROM {evil}_secret) AS detail) FROM {ledger}"
        " COMMENT '{comment}'",
    ),
    "altered": (
        "CREATE TABLE {evil}_secret (k UInt8, s String) ENGINE = Join(ANY, LEFT, k)",
        "CREATE TABLE {evil} AS {ledger}",
        "ALTER TABLE {evil} MODIFY COMMENT '{comment}'",
        "ALTER TABLE {evil} MODIFY COLUMN name String ALIAS joinGet('{evil}_secret', 's', toUInt8(1))",
    ),
}
"""What reads another table, and calls itself a ledger."""


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "version"), [("view", "1"), ("altered", "1"), ("altered", "0")])
def test_what_would_read_another_table_is_no_ledger(lab: Lab, kind: str, version: str) -> None:
    ledger, evil = f"{lab.database}.ch_s3_ledger", f"{lab.database}.evil"
    lab.put("in/a.csv", b"2013-01-01,1\n")
    lab.load("in/*.csv", lab.create("t", "day Date, n UInt32"), **CSV)
    (row,) = lab.query(f"SELECT comment FROM system.tables WHERE concat(database, '.', name) = '{ledger}'")
    row["comment"] = row["comment"].replace("schema 1", f"schema {version}")
    names = {"evil": evil, "ledger": ledger, **row}
    lab.ddl(
        *(one.format(**names) for one in EVIL[kind]),
        f"CREATE TABLE {evil}_files AS {ledger}_files",
        f"ALTER TABLE {evil}_files MODIFY COMMENT '{row['comment']}'",
    )
    told_by = lab.query(f"SELECT name, comment FROM system.tables WHERE database = '{lab.database}'")
    assert {one["name"] for one in told_by if one["comment"]} >= {"evil", "evil_files", "ch_s3_ledger"}
    with pytest.raises(ConfigError, match=coded("ledger-missing", evil)), reading_ledger("ch", evil):
        pass
    with reading_ledger("ch", ledger) as (_, ledgers):
        assert [one for one in ledgers if one.startswith(lab.database)] == [ledger]


def told(files: Any) -> list[tuple[str, str, int | None]]:
    return [(Path(one.path).name, one.state, one.rows) for one in files]


@pytest.mark.thorough
def test_the_files_of_a_load_and_of_a_table(
    lab: Lab, view: LedgerView, days: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, fails, second, _ = view.page(Selection()).loads
    found = view.load_files(second.query_id)
    assert ([one.query_id for one in found.attempts], found.is_cut) == ([second.query_id], False)
    assert told(found.files) == [("b.csv", "held", 1)]
    assert found.skipped == [{"files": 1, "why": "the table already held them, in this version or another"}]
    etag = lab.s3.head_object(Bucket=lab.bucket, Key="in/b.csv")["ETag"].strip('"')
    assert asdict(found.files[0]) == {
        **{"path": f"{lab.bucket}/in/b.csv", "etag": etag, "size_bytes": 13, "rows": 1, "state": "held"},
        **{"load_id": second.load_id, "attempt": second.attempt, "why": "loaded"},
    }
    assert told(view.load_files(fails.load_id).files) == [("c.csv", "abandoned", None)]
    assert told(view.load_files(stays.load_id).files) == [("d.csv", "open", None)]
    with pytest.raises(ConfigError, match=coded("load-unknown", "'ch-s3-nothing'")):
        view.load_files("ch-s3-nothing")
    # those of a load that is committed, and of one that still runs
    for name in (second.query_id, second.load_id, stays.query_id):
        chosen = view.load_settings(name)
        assert chosen.settings["max_insert_threads"]["reason"]
        assert chosen.settings.keys().isdisjoint(chosen.left_out_settings)

    def held(**which: str) -> list[FileRecord]:
        return list(view.table_files(days, **which).files)

    assert told(held()) == [("a.csv", "held", None), ("b.csv", "held", None)]
    assert told(held(prefix=f"{lab.bucket}/in/b")) == [("b.csv", "held", None)]
    monkeypatch.setattr(ledger_view, "MAX_FILES", 1)
    pages = turn(lambda after: view.table_files(days, after=after))
    assert [file for page in pages for file in told(page.files)] == [("a.csv", "held", None), ("b.csv", "held", None)]

    other = lab.create("other", "day Date, n UInt32")
    lab.load("in/*.csv", other, task_id="old", **CSV)
    lab.load("in/a.csv", other, task_id="new", mode="replace_table", **CSV)
    old = next(one for one in view.page(Selection(table=other)).loads if one.task == "old")
    capsys.readouterr()
    assert lab.loads("show", old.load_id, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["is_cut"], [one["rows"] for one in shown["attempts"]]) == (True, [4])
    assert [(Path(one["path"]).name, one["state"], one["rows"]) for one in shown["files"]] == [
        ("a.csv", "replaced", None)
    ]


@pytest.mark.thorough
def test_the_queries_of_the_documents(lab: Lab, days: str) -> None:
    queries = re.findall(r"^## ([^\n]+)\n.*?^```sql\n(.*?)^```", MONITORING.read_text(), re.DOTALL | re.MULTILINE)
    ledger = f"clusterAllReplicas('{lab.sandbox.cluster}', '{lab.database}', 'ch_s3_ledger')"
    found = {title: lab.query(sql.replace("FROM ch_s3_ledger", f"FROM {ledger}")) for title, sql in queries}
    assert len(found) == MONITORING.read_text().count("```sql") == 4
    (loads,) = found["Loads, rows and seconds by day"]
    assert (loads["target"], loads["loads"], loads["added"], loads["seconds"] > 0) == (days, 2, 3, True)
    (failures,) = found["Failures by day"]
    assert (failures["target"], failures["failures"]) == (days, 1)
    (still_open,) = found["Open attempts, with their age"]
    assert [still_open[name] for name in ("target", "dag", "task")] == [days, "lab", "stays"]
    assert still_open["age_seconds"] >= 0
    (last,) = found["Time since the last load, by table"]
    assert (last["target"], last["idle_seconds"] >= 0) == (days, True)
