"""Records that somebody else wrote into the ledger: whoever may insert there must not load with the rights of others.

Mallory has SELECT, INSERT, CREATE TABLE and DROP TABLE on the database that others load into, and nothing else.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, LoadError
from airflow_provider_ch_s3.modes import Append, ReplaceWhere
from airflow_provider_ch_s3.operators.held import ClickHouseCommitHeldOperator
from airflow_provider_ch_s3.table.target import parse_table, short_hash
from ch_s3_lab.sandbox import Sandbox, SandboxConfig
from ch_s3_lab.sandbox.launch import running_sandbox
from tests.failures import coded, own_errors
from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Lab, lab_in, start_worker
from tests.sandbox.few import EVEN_AND_ODD, die_before, is_clean, put_numbers

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

LOAD = "c0ffee" + "0" * 14
EPOCHS_LATER = 1
MINE, HERS = [{"n": n} for n in range(4)], [{"n": 666}, {"n": 667}]


@pytest.fixture(scope="module")
def team_sandbox() -> Iterator[Sandbox]:
    """One server of its own, with users."""
    with running_sandbox(SandboxConfig(shards=1, engine="25.8")) as sandbox:
        yield sandbox


@dataclass(frozen=True, kw_only=True)
class Mallory:
    """A colleague who forges the record of a commit that was interrupted, and what it staged."""

    lab: Lab
    sandbox: Sandbox
    table: str

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.sandbox.query(sql, settings={"database": self.lab.database})

    @property
    def epoch(self) -> int:
        (row,) = self.query("SELECT max(epoch) AS last FROM ch_s3_ledger WHERE epoch < 18446744073709551615")
        return int(row["last"]) + EPOCHS_LATER

    def stage(self, epoch: int, role: str, rows: Sequence[Mapping[str, int]]) -> None:
        name = f"ch_s3_stage_{short_hash(parse_table(self.table, ''))}_{LOAD}_0_{epoch}_{epoch}{role}"
        self.query(f"CREATE TABLE {name} AS {self.table}")
        if rows:
            self.query(f"INSERT INTO {name} VALUES {', '.join(str((row['n'],)).replace(',', '') for row in rows)}")

    def record(self, epoch: int, **plan: Any) -> None:
        found = self.query(f"SELECT uuid FROM system.tables WHERE concat(database, '.', name) = '{self.table}'")
        given = {
            "load_mode": "append",
            "partitions": {},
            "table_uuids": [row["uuid"] for row in found],
            "allow_empty": False,
            "keeps_all_rows": True,
            **plan,
        }
        for event, detail in (("planned", {"definition": {}}), ("committing", given)):
            row = {
                "target": self.table,
                "load_id": f"ch-s3-{LOAD}",
                "generation": 0,
                "attempt": epoch,
                "epoch": epoch,
                "try_number": 1,
                "event": event,
                "detail": json.dumps(detail),
            }
            self.query(f"INSERT INTO ch_s3_ledger FORMAT JSONEachRow {json.dumps(row)}")


@pytest.fixture
def lab(team_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return lab_in(team_sandbox, monkeypatch)


@pytest.fixture
def mallory(lab: Lab) -> Mallory:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, "in/first.csv", MINE)
    lab.load("in/*.csv", table, task_id="first")
    put_numbers(lab, "in/second.csv", [{"n": 9}])
    user = f"mallory_{lab.database}"
    lab.query(f"CREATE USER {user} IDENTIFIED BY 'hers'")
    lab.query(f"GRANT SELECT, INSERT, CREATE TABLE, DROP TABLE ON {lab.database}.* TO {user}")
    return Mallory(lab=lab, sandbox=replace(lab.sandbox, user=user, password="hers"), table=table)


def held(lab: Lab, table: str) -> list[int]:
    return sorted(row["n"] for row in lab.query(f"SELECT n FROM {table}"))


def test_rows_go_to_no_table_of_another_database(lab: Lab, mallory: Mallory) -> None:
    lab.query(f"CREATE DATABASE {lab.database}_pay")
    lab.query(f"CREATE TABLE {lab.database}_pay.pay (n UInt32) ENGINE = {EVEN_AND_ODD}")
    epoch = mallory.epoch
    mallory.stage(epoch, "", [])
    mallory.stage(epoch, "_view0", HERS)
    node = lab.query("SELECT concat(hostName(), ':', toString(tcpPort())) AS name")[0]["name"]
    before = {"_view0": {node: {p: {"last_block": -1, "rows": 0, "staged_rows": 1} for p in "01"}}}
    mallory.record(epoch, views={"_view0": [f"{lab.database}_pay", "pay"]}, before=before)
    lab.load("in/*.csv", mallory.table, task_id="second")
    assert held(lab, f"{lab.database}_pay.pay") == []
    assert held(lab, mallory.table) == [0, 1, 2, 3, 9]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["replace_where", thorough("replace_files"), thorough("undo")])
def test_no_condition_of_hers_deletes_rows(lab: Lab, mallory: Mallory, mode: str) -> None:
    epoch = mallory.epoch
    mallory.stage(epoch, "", [])
    mallory.record(epoch, load_mode=mode, replace_where="1 = 1")
    lab.load("in/*.csv", mallory.table, task_id="second")
    assert held(lab, mallory.table) == [0, 1, 2, 3, 9]


@pytest.mark.thorough
def test_a_commit_that_was_begun_with_another_login(lab: Lab, mallory: Mallory) -> None:
    table = mallory.table
    mode: dict[str, Any] = {"mode": ReplaceWhere("n < 1000")}
    before = die_before("write_event_committed", 1, signal.SIGKILL)
    with start_worker(lab, table, before=before, task_id="killed", source=lab.uri("in/second.csv"), **mode) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    assert held(lab, table) == [9]
    colleague(lab, "his")
    with pytest.raises(LoadError, match=coded("commit-of-another-login", "interrupted halfway")):
        lab.load("in/first.csv", table, task_id="second", mode=Append(on_loaded="load"))
    assert held(lab, table) == [9]
    lab.connect_clickhouse()
    lab.load("in/first.csv", table, task_id="third", mode=Append(on_loaded="load"))
    assert held(lab, table) == [0, 1, 2, 3, 9]


@pytest.mark.thorough
def test_rows_that_were_held_with_another_login(lab: Lab, mallory: Mallory) -> None:
    report = lab.load("in/second.csv", mallory.table, task_id="holding", commit="held")
    commit = ClickHouseCommitHeldOperator(
        task_id="commit", load=report["query_id"], table=mallory.table, clickhouse_conn_id="ch"
    )
    colleague(lab, "his")
    with pytest.raises(ConfigError, match=coded("commit-of-another-login")), own_errors():
        commit.execute(lab.context(commit))
    assert held(lab, mallory.table) == [0, 1, 2, 3]
    lab.connect_clickhouse()
    commit.execute(lab.context(commit))
    assert held(lab, mallory.table) == [0, 1, 2, 3, 9]


def colleague(lab: Lab, password: str) -> str:
    """Create a user who may do everything, and connect as that user."""
    user = f"colleague_{lab.database}"
    lab.query(f"CREATE USER {user} IDENTIFIED BY '{password}'")
    lab.query(f"GRANT CURRENT GRANTS ON *.* TO {user}")
    lab.connect_clickhouse(login=user, password=password)
    return user


def change_password(lab: Lab, user: str, password: str) -> None:
    lab.query(f"ALTER USER {user} IDENTIFIED BY '{password}'")
    lab.connect_clickhouse(login=user, password=password)


@pytest.mark.thorough
def test_a_password_that_is_changed_between_two_tries(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing had changed yet: the commit is given up, and the next try loads again."""
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, "in/first.csv", MINE)
    user = colleague(lab, "old")
    with start_worker(lab, table, before=die_before("move_partitions", 1, signal.SIGKILL), max_tries=1) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    change_password(lab, user, "new")
    lab.load("in/*.csv", table, try_number=2, max_tries=1)
    assert "which has changed nothing and was not recorded in" in caplog.text
    assert held(lab, table) == [0, 1, 2, 3]
    assert is_clean(lab)


@pytest.mark.thorough
def test_the_way_out_of_a_commit_whose_password_is_gone(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, "in/first.csv", MINE)
    user = colleague(lab, "old")
    before = die_before("write_event_committed", 1, signal.SIGKILL)
    with start_worker(lab, table, before=before, task_id="killed") as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    assert held(lab, table) == [0, 1, 2, 3]
    change_password(lab, user, "new")
    with pytest.raises(LoadError, match=coded("commit-of-another-login", "interrupted halfway")) as raised:
        lab.load("in/*.csv", table, task_id="killed", try_number=2)
    (staged,) = re.findall(r"drop the tables (\S+)\* on every node, and remove", raised.value.sentence)
    for row in lab.query(f"SELECT name FROM system.tables WHERE concat(database, '.', name) LIKE '{staged}%'"):
        lab.query(f"DROP TABLE {lab.database}.{row['name']}")
    lab.query(f"TRUNCATE TABLE {table}")
    lab.load("in/*.csv", table, task_id="killed", try_number=3, mode=Append(on_loaded="load"))
    assert held(lab, table) == [0, 1, 2, 3]
    assert is_clean(lab)
