"""Loads through a staging table, interrupted everywhere: each file's rows arrive once, and nothing is left behind."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from airflow_provider_ch_s3.arguments import Arrivals, Checks, Chunks
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, OvertakenError, SourceError, TargetError
from airflow_provider_ch_s3.exactly_once.records import SCHEMA_VERSION
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load import wiring
from airflow_provider_ch_s3.modes import Append, Mode, ReplacePartitions, ReplaceWhere
from airflow_provider_ch_s3.sql.filters import identifier
from airflow_provider_ch_s3.stores.s3 import S3FileStore
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import (
    ROWS,
    SLOW,
    WAIT_SECONDS,
    Background,
    Freeze,
    Lab,
    bag,
    put_slow_files,
    start_worker,
    wait_until,
)
from tests.sandbox.few import (
    EVEN_AND_ODD,
    FEW,
    OTHER,
    SLOW_FEW,
    die_before,
    is_clean,
    is_stopped,
    make_table,
    put_numbers,
    stand_in_line,
)
from tests.sandbox.gates import Gate
from tests.sandbox.processes import all_answer, kill_node

pytestmark = pytest.mark.sandbox


@pytest.fixture
def table(lab: Lab) -> str:
    return make_table(lab)


class TestRetry:
    @pytest.mark.parametrize("name", ["drop_staging", "drop_lock"])
    def test_after_a_commit_reports_what_was_committed(self, lab: Lab, table: str, name: str) -> None:
        nth = {"drop_staging": 1, "drop_lock": 2}[name]  # the first lock is for the plan
        with start_worker(lab, table, before=die_before(name, nth, signal.SIGKILL)) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        assert bag(lab.rows(table)) == bag(FEW)
        report = lab.load("in/*.csv", table, try_number=2)
        assert lab.inserts() == [report["query_id"]]
        assert (report["rows_written"], report["partitions"]) == (30, {"0": 15, "1": 15})
        assert bag(lab.rows(table)) == bag(FEW)
        # the next load removes what the dead worker left behind
        lab.load("in/*.csv", table, task_id="next")
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_within_a_commit_of_files_that_are_gone_since(self, lab: Lab, table: str) -> None:
        with start_worker(lab, table, before=die_before("move_partitions", 2, signal.SIGKILL)) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        for number in range(3):
            lab.s3.delete_object(Bucket=lab.bucket, Key=f"in/{number}.csv")
        report = lab.load("in/*.csv", table, try_number=2)
        assert report["rows_written"] == 30
        assert bag(lab.rows(table)) == bag(FEW)
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_after_a_failed_insert(self, lab: Lab, table: str) -> None:
        lab.connect_one_node()
        lab.everywhere(f"INSERT INTO {table} VALUES (77)")
        with pytest.raises(LoadError, match=coded("query-failed", "-insert", "n is 29")):
            lab.load(
                "in/*.csv",
                table,
                mode=Append(on_unknown_rows="keep"),
                where="throwIf(n = 29, 'n is 29') = 0",
                settings={"max_insert_threads": 1},
            )
        assert lab.rows(table) == [{"n": 77}]
        assert is_clean(lab)
        lab.load("in/*.csv", table, mode=Append(on_unknown_rows="keep"), try_number=2)
        assert bag(lab.rows(table)) == bag([*FEW, {"n": 77}])
        assert len(lab.inserts()) == 2

    @pytest.mark.thorough
    def test_of_a_try_that_left_nothing_loads_at_once(self, lab: Lab, table: str) -> None:
        assert lab.load("in/*.csv", table, try_number=2)["rows_written"] == 30
        assert is_clean(lab)


class TestEditedArguments:
    """A try dies when its rows are staged, the DAG is edited, and the retry runs."""

    def stage(self, lab: Lab, table: str, **arguments: Any) -> None:
        before = die_before("write_event_committing", 1, signal.SIGKILL)
        with start_worker(lab, table, before=before, **arguments) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL

    @pytest.mark.thorough
    def test_append_that_becomes_replace_table(self, lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
        lab.load("in/*.csv", table, task_id="yesterday")
        put_numbers(lab, "in/new.csv", OTHER)
        self.stage(lab, table)  # of the new file alone
        caplog.set_level(logging.WARNING)
        report = lab.load("in/*.csv", table, try_number=2, mode="replace_table")
        assert report["files_read"] == 4
        assert bag(lab.rows(table)) == bag(FEW + OTHER)
        assert "mode changed since " in caplog.text
        assert is_clean(lab)

    @pytest.mark.thorough
    @pytest.mark.parametrize("argument", ["where", "select"])
    def test_an_expression(self, lab: Lab, table: str, argument: str) -> None:
        old: dict[str, Any] = {"where": {"where": "n < 5"}, "select": {"select": {"n": "n + 1000"}}}[argument]
        self.stage(lab, table, **old)
        lab.load("in/*.csv", table, try_number=2)
        assert bag(lab.rows(table)) == bag(FEW)
        assert len(lab.inserts()) == 2
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_files_that_are_to_be_skipped_now(self, lab: Lab, table: str) -> None:
        lab.load("in/*.csv", table, task_id="yesterday")
        self.stage(lab, table, mode=Append(on_loaded="load"))
        assert lab.load("in/*.csv", table, try_number=2)["files_skipped"] == 3
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.thorough
    def test_what_decides_about_no_row_is_continued(self, lab: Lab, table: str) -> None:
        self.stage(lab, table)
        lab.load(
            "in/*.csv",
            table,
            try_number=2,
            arrivals=Arrivals(min_files=3),
            checks=Checks(min_rows=30),
            commit="settled",
        )
        assert len(lab.inserts()) == 1
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.thorough
    def test_after_the_commit_the_log_says_that_the_rows_are_of_the_old_ones(
        self, lab: Lab, table: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with start_worker(lab, table, before=die_before("drop_staging", 1, signal.SIGKILL)) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        caplog.set_level(logging.WARNING)
        assert lab.load("in/*.csv", table, try_number=2, where="n < 5")["rows_written"] == 30
        assert "where changed since an earlier try committed this load" in caplog.text
        assert bag(lab.rows(table)) == bag(FEW)


class TestDroppedLedger:
    """The servers' logs remember the INSERT of the same task, and its staging table may still be there."""

    def drop(self, lab: Lab, *tables: str) -> None:
        for name in (*tables, "ch_s3_ledger", "ch_s3_ledger_files"):
            lab.everywhere(f"DROP TABLE {lab.database}.{name} SYNC")

    @pytest.mark.thorough
    def test_no_query_is_taken_for_a_new_one(self, lab: Lab) -> None:
        table = lab.create("t", "n UInt32", "ReplacingMergeTree ORDER BY n")
        put_numbers(lab, "in/0.csv", FEW)
        first = lab.load("in/*.csv", table)
        self.drop(lab, "t")
        lab.create("t", "n UInt32", "ReplacingMergeTree ORDER BY n")
        put_numbers(lab, "in/0.csv", OTHER)
        again = lab.load("in/*.csv", table)
        assert again["query_id"] != first["query_id"]
        assert again["rows_written"] == len(OTHER)
        assert bag(lab.rows(table)) == bag(OTHER)

    @pytest.mark.thorough
    def test_no_file_is_deleted_whose_rows_are_not_there(self, lab: Lab) -> None:
        """The new INSERT never reaches a server, and the old one was logged with 30 rows."""
        table = lab.create("t", "n UInt32", "ReplacingMergeTree ORDER BY n")
        how: dict[str, Any] = {"after_load": "delete", "checks": Checks(min_rows=0), "max_tries": 1}
        put_numbers(lab, "in/0.csv", FEW)
        lab.load("in/*.csv", table, **how)
        self.drop(lab, "t")
        lab.create("t", "n UInt32", "ReplacingMergeTree ORDER BY n")
        put_numbers(lab, "in/0.csv", OTHER)
        with start_worker(lab, table, before=die_before("insert_load", 1, signal.SIGKILL), **how) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        report = lab.load("in/*.csv", table, try_number=2, **how)
        assert report["rows_written"] == len(OTHER)
        assert bag(lab.rows(table)) == bag(OTHER)
        assert "Contents" not in lab.s3.list_objects_v2(Bucket=lab.bucket, Prefix="in/")

    @pytest.mark.thorough
    def test_no_rows_are_taken_from_the_table_that_was_staged(self, lab: Lab, table: str) -> None:
        with start_worker(lab, table, before=die_before("write_event_committing", 1, signal.SIGKILL)) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        self.drop(lab)
        assert lab.load("in/*.csv", table, try_number=2)["rows_written"] == len(FEW)
        assert bag(lab.rows(table)) == bag(FEW)


class TestRetryOrClear:
    """``retries`` is edited while a run exists, so that Airflow's numbers do not tell a retry from a clear."""

    HOW: ClassVar = {"mode": Append(on_loaded="load")}

    @pytest.mark.thorough
    def test_a_retry_after_retries_were_lowered_finds_the_commit(self, lab: Lab, table: str) -> None:
        before = die_before("drop_staging", 1, signal.SIGKILL)
        with start_worker(lab, table, before=before, max_tries=3, retries=3, **self.HOW) as worker:
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        assert bag(lab.rows(table)) == bag(FEW)
        lab.load("in/*.csv", table, try_number=2, max_tries=3, retries=2, **self.HOW)
        assert bag(lab.rows(table)) == bag(FEW)
        assert len(lab.inserts()) == 1

    @pytest.mark.thorough
    def test_a_clear_that_has_the_same_numbers_loads_again(self, lab: Lab, table: str) -> None:
        lab.load("in/*.csv", table, max_tries=3, retries=3, **self.HOW)
        lab.load("in/*.csv", table, try_number=2, max_tries=3, retries=2, **self.HOW)
        assert bag(lab.rows(table)) == bag(FEW * 2)

    @pytest.mark.thorough
    @pytest.mark.parametrize(("try_number", "max_tries"), [(0, 0), (1, 3)], ids=["tasks-test", "retries-lowered"])
    def test_chunks_are_found_by_the_try_that_committed_them(
        self, lab: Lab, table: str, try_number: int, max_tries: int
    ) -> None:
        how = {**self.HOW, "chunks": Chunks(max_files=1), "after_load": "delete"}
        report = lab.load("in/*.csv", table, try_number=try_number, max_tries=max_tries, **how)
        assert report["chunks"] == 3
        assert bag(lab.rows(table)) == bag(FEW)
        assert "Contents" not in lab.s3.list_objects_v2(Bucket=lab.bucket, Prefix="in/")


class TestCleared:
    @pytest.mark.thorough
    def test_append_skips_what_is_there(self, lab: Lab, table: str) -> None:
        first = lab.load("in/*.csv", table)
        again = lab.load("in/*.csv", table, try_number=2, max_tries=1)
        assert (again["query_id"], again["files_skipped"]) == ("", 3)
        put_numbers(lab, "in/new.csv", OTHER)
        third = lab.load("in/*.csv", table, try_number=3, max_tries=2)
        assert (third["files_skipped"], third["files_read"]) == (3, 1)
        assert lab.inserts() == [first["query_id"], third["query_id"]]
        assert bag(lab.rows(table)) == bag(FEW + OTHER)

    @pytest.mark.thorough
    @pytest.mark.parametrize("mode", ["replace_partitions", "replace_table"])
    def test_replace_repeats(self, lab: Lab, table: str, mode: str) -> None:
        first = lab.load("in/*.csv", table, mode=mode)
        put_numbers(lab, "in/0.csv", OTHER)
        again = lab.load("in/*.csv", table, mode=mode, try_number=2, max_tries=1)
        assert lab.inserts() == [first["query_id"], again["query_id"]]
        assert bag(lab.rows(table)) == bag(FEW[1::3] + FEW[2::3] + OTHER)
        assert is_clean(lab)


class TestKill:
    @pytest.mark.parametrize("mode", ["append", "replace_partitions", "replace_table"])
    def test_during_the_commit_finishes_it(self, lab: Lab, table: str, mode: str) -> None:
        operator = lab.operator("in/*.csv", table, mode=mode)
        real, calls = ClickHouseS3Hook.execute_on, []

        def killed_between_two_partitions(
            hook: ClickHouseS3Hook, nodes: Any, statement: Statement, **given: Any
        ) -> None:
            if statement.name in ("move_partitions", "replace_partitions"):  # of one partition each
                calls.append(statement)
                if len(calls) == 2:
                    operator.on_kill()
            real(hook, nodes, statement, **given)

        lab.monkeypatch.setattr(wiring, "PARTITIONS_PER_STATEMENT", 1)
        lab.monkeypatch.setattr(ClickHouseS3Hook, "execute_on", killed_between_two_partitions)
        with suppress(OvertakenError):
            operator.execute(lab.context(operator))
        assert len(calls) >= 2
        assert bag(lab.rows(table)) == bag(FEW)
        assert is_clean(lab)
        assert len(lab.inserts()) == 1

    @pytest.mark.thorough
    @pytest.mark.every_case
    @pytest.mark.parametrize(
        ("name", "nth"),
        [
            thorough("create_lock", 1, id="before-the-lock"),
            thorough("write_event_planned", 1, id="planning"),
            pytest.param("create_staging", 2, id="staging-tables-half-made"),
            thorough("submit", 1, id="before-the-insert"),
            thorough("rename_staging", 2, id="before-the-commit"),
            pytest.param("move_partitions", 2, id="in-the-commit"),
            thorough("drop_staging", 1, id="after-the-commit"),
        ],
    )
    def test_at_any_statement(self, lab: Lab, table: str, freeze: Freeze, name: str, nth: int) -> None:
        # from another thread, because Airflow's signal handler also runs between two instructions
        operators = []
        real = lab.operator

        def keep(*given: Any, **named: Any) -> Any:
            operators.append(real(*given, **named))
            return operators[-1]

        lab.monkeypatch.setattr(lab, "operator", keep)
        gate = freeze(Gate(name, nth), "in/*.csv", table)
        operators[0].on_kill()
        gate.wake()
        assert lab.running() == []
        assert bag(lab.rows(table)) in (bag([]), bag(FEW))
        lab.load("in/*.csv", table, try_number=2)
        assert bag(lab.rows(table)) == bag(FEW)
        lab.load("in/*.csv", table, task_id="next")
        assert is_clean(lab)


ZOMBIES = [
    thorough("write_event_locked", 1, id="first-lock"),
    thorough("read_tables", 2, id="second-look"),
    thorough("write_files", 1, id="manifest"),
    thorough("write_event_planned", 1, id="plan"),
    thorough("create_staging", 2, id="staging-tables"),
    thorough("drop_lock", 1, id="first-release"),
    pytest.param("submit", 1, id="insert"),
    thorough("write_event_locked", 2, id="second-lock"),
    thorough("rename_staging", 2, id="rename"),
    thorough("write_event_committing", 1, id="committing"),
    thorough("move_partitions", 1, id="first-move"),
    pytest.param("move_partitions", 3, id="last-move"),
    thorough("write_event_committed", 1, id="committed"),
    thorough("drop_staging", 1, id="drop"),
    thorough("drop_lock", 2, id="last-release"),
]


WHERE_THE_OWNER_MATTERS = ("plan", "staging-tables", "insert", "rename", "committing", "last-move", "drop")


class TestZombie:
    """A process that is suspended, is overtaken, and resumes."""

    @pytest.mark.parametrize(("name", "nth"), ZOMBIES)
    def test_overtaken_by_the_next_try(self, lab: Lab, table: str, freeze: Freeze, name: str, nth: int) -> None:
        gate = freeze(Gate(name, nth), "in/*.csv", table)
        lab.load("in/*.csv", table, try_number=2)
        assert bag(lab.rows(table)) == bag(FEW)
        error = gate.wake()
        assert error is None or isinstance(error, LoadError)
        assert bag(lab.rows(table)) == bag(FEW)
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_drops_the_table_of_survivors_that_it_made_late(self, lab: Lab, table: str, freeze: Freeze) -> None:
        # the staging tables of the new rows on three nodes, and those of new and old rows on two
        # (on its last try it would abandon the attempt, and so clean up)
        where: dict[str, Any] = {"mode": ReplaceWhere("n >= 0"), "max_tries": 3}
        gate = freeze(Gate("create_staging", 6), "in/*.csv", table, **where)
        lab.load("in/*.csv", table, try_number=2, **where)
        assert isinstance(gate.wake(), OvertakenError)
        assert bag(lab.rows(table)) == bag(FEW)
        assert is_clean(lab)

    # the places where it matters which process overtakes; the test above covers all of them
    @pytest.mark.parametrize(("name", "nth"), [z for z in ZOMBIES if z.id in WHERE_THE_OWNER_MATTERS])
    def test_overtaken_by_another_load(
        self, lab: Lab, table: str, freeze: Freeze, impatient: None, name: str, nth: int
    ) -> None:
        put_numbers(lab, "other/a.csv", OTHER)
        gate = freeze(Gate(name, nth), "in/*.csv", table)
        lab.load("other/*.csv", table, task_id="other")
        assert bag(lab.rows(table)) in (bag(OTHER), bag(FEW + OTHER))
        error = gate.wake()
        assert error is None or isinstance(error, LoadError), repr(error)
        if error is None:
            assert bag(lab.rows(table)) == bag(FEW + OTHER)
        lab.load("in/*.csv", table, try_number=2)
        assert bag(lab.rows(table)) == bag(FEW + OTHER)
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_does_not_drop_what_a_later_load_commits(
        self, lab: Lab, table: str, freeze: Freeze, impatient: None
    ) -> None:
        put_numbers(lab, "other/a.csv", OTHER)
        zombie = freeze(Gate("write_event_locked"), "other/*.csv", table, task_id="zombie")
        later = freeze(Gate("move_partitions", 2), "in/*.csv", table)
        # it was overtaken by another load, so it starts again
        assert zombie.wake() is None
        assert later.wake() is None
        assert bag(lab.rows(table)) == bag(FEW + OTHER)

    @pytest.mark.thorough
    def test_that_gives_up_does_not_drop_what_the_next_try_commits(
        self, lab: Lab, table: str, freeze: Freeze
    ) -> None:
        # the first try cannot list the files at the end of its load, and abandons it; the next try continues it
        listings = []
        real = S3FileStore.list_files

        def fail_once(store: S3FileStore, *given: Any, **how: Any) -> Any:
            listings.append(given)
            if len(listings) == 2:
                raise SourceError("a-code", "the listing failed")
            return real(store, *given, **how)

        lab.monkeypatch.setattr(S3FileStore, "list_files", fail_once)
        zombie = freeze(Gate("write_event_abandoned"), "in/*.csv", table)
        later = freeze(Gate("move_partitions", 2), "in/*.csv", table, try_number=2)
        assert isinstance(zombie.wake(), SourceError)
        # a third try finds what the second one has begun
        third = lab.load("in/*.csv", table, try_number=3)
        assert third["rows_written"] == 30
        assert bag(lab.rows(table)) == bag(FEW)
        later.wake()
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.thorough
    def test_process_stopped_while_its_insert_runs(self, lab: Lab, table: str) -> None:
        with start_worker(lab, table, **SLOW_FEW) as worker:
            wait_until(lab.running, "the worker's query")
            os.kill(worker.pid, signal.SIGSTOP)
            wait_until(lambda: is_stopped(worker), "the worker to stand still")
            report = lab.load("in/*.csv", table, try_number=2, **SLOW_FEW)
            assert report["attached"]
            assert bag(lab.rows(table)) == bag(FEW)
            os.kill(worker.pid, signal.SIGCONT)
            worker.wait(WAIT_SECONDS)
        assert bag(lab.rows(table)) == bag(FEW)
        assert lab.inserts() == [report["query_id"]]
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_process_stopped_inside_its_commit(self, lab: Lab, table: str) -> None:
        with start_worker(lab, table, before=die_before("move_partitions", 3, signal.SIGSTOP)) as worker:
            wait_until(lambda: is_stopped(worker), "the worker to stand still")
            assert bag(lab.rows(table)) <= bag(FEW)  # what the first two nodes have, or a part of it
            report = lab.load("in/*.csv", table, try_number=2)
            assert bag(lab.rows(table)) == bag(FEW)
            os.kill(worker.pid, signal.SIGCONT)
            worker.wait(WAIT_SECONDS)
        assert bag(lab.rows(table)) == bag(FEW)
        assert lab.inserts() == [report["query_id"]]
        assert is_clean(lab)


def places(lab: Lab) -> list[str]:
    return [name for name in lab.left_overs() if name.startswith("ch_s3_wait_")]


class TestAtTheSameTime:
    @pytest.mark.thorough
    @pytest.mark.parametrize("rounds", [1, 3])
    def test_overlapping_globs_load_each_file_once(self, lab: Lab, background: Background, rounds: int) -> None:
        table = lab.create("t", "n UInt32", EVEN_AND_ODD)
        for start in range(0, 20 * rounds, 20):
            rows = [{"n": n} for n in range(start, start + 20)]
            for number in range(5):
                put_numbers(lab, f"in{start}/{number}.csv", rows[number::5])
            globs = (f"in{start}/{{0..3}}.csv", f"in{start}/{{1..4}}.csv")
            tasks = [background(lab.load, glob, table, task_id=f"{glob[-8:-5]}{start}") for glob in globs]
            for task in tasks:
                task.result()
            assert bag(lab.rows(table)) == bag([{"n": n} for n in range(start + 20)])
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_who_comes_first_goes_first(self, lab: Lab, table: str, freeze: Freeze, background: Background) -> None:
        owner = freeze(Gate("write_files"), "in/*.csv", table, task_id="owner")
        tasks = []
        for number in range(3):
            put_numbers(lab, f"in{number}/a.csv", OTHER)
            tasks.append(background(lab.load, f"in{number}/*.csv", table, task_id=f"task{number}"))
            wait_until(lambda: len(places(lab)) == len(tasks), "one more in line")
        assert owner.wake() is None
        ids = [task.result()["query_id"].split("-")[2] for task in tasks]
        ledger = f"clusterAllReplicas('{lab.sandbox.cluster}', '{lab.database}', 'ch_s3_ledger')"
        locked = lab.query(f"SELECT load_id, min(epoch) FROM {ledger} WHERE event = 'locked' GROUP BY 1 ORDER BY 2")
        assert [row["load_id"].removeprefix("ch-s3-") for row in locked][1:] == ids
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_a_load_plans_while_another_commits(self, lab: Lab, table: str, freeze: Freeze) -> None:
        put_numbers(lab, "other/a.csv", OTHER)
        owner = freeze(Gate("move_partitions"), "in/*.csv", table, task_id="owner")
        other = freeze(Gate("count_loads"), "other/*.csv", table, task_id="other")  # the last thing that a plan reads
        assert owner.wake() is None
        assert other.wake() is None
        assert bag(lab.rows(table)) == bag(FEW + OTHER)

    @pytest.mark.thorough
    @pytest.mark.usefixtures("impatient")
    def test_all_that_died_in_line_are_passed_together(self, lab: Lab, table: str) -> None:
        for place in (3, 4, 7):
            stand_in_line(lab, table, place)
        lab.load("in/*.csv", table)
        assert bag(lab.rows(table)) == bag(FEW)
        assert is_clean(lab)

    @pytest.mark.thorough
    @pytest.mark.usefixtures("impatient")
    def test_who_dies_with_the_lock_and_in_line_is_passed(self, lab: Lab, table: str, freeze: Freeze) -> None:
        put_numbers(lab, "other/a.csv", OTHER)
        owner = freeze(Gate("write_files"), "other/*.csv", table, task_id="owner")
        with start_worker(lab, table, before=die_before("write_event_locked", 1, signal.SIGKILL)) as worker:
            wait_until(lambda: places(lab), "the worker to stand in line")
            assert owner.wake() is None  # it has to wait for the worker, which goes first
            assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
        lab.load("in/*.csv", table, try_number=2)
        assert bag(lab.rows(table)) == bag(FEW + OTHER)
        assert is_clean(lab)

    @pytest.mark.thorough
    @pytest.mark.parametrize("rounds", [1, 3])
    def test_two_that_replace_the_same_partitions(
        self, lab: Lab, table: str, background: Background, rounds: int
    ) -> None:
        put_numbers(lab, "other/a.csv", OTHER)
        how = {"mode": ReplacePartitions(on_partial="replace")}
        for round_number in range(rounds):
            tasks = [
                background(lab.load, f"{folder}/*.csv", table, task_id=f"{folder}{round_number}", **how)
                for folder in ("in", "other")
            ]
            for task in tasks:
                task.result()
            assert bag(lab.rows(table)) in (bag(FEW), bag(OTHER))
        assert is_clean(lab)


@pytest.mark.thorough
class TestObjectsThatChange:
    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        """One node, since a failed INSERT may still be running on others."""
        lab.connect_one_node()
        return lab

    @pytest.mark.parametrize("is_deleted", [False, True], ids=["changed", "deleted"])
    def test_while_they_are_loaded(self, lab: Lab, table: str, background: Background, is_deleted: bool) -> None:
        task = background(lab.load, "in/*.csv", table, **SLOW_FEW)
        wait_until(lab.running, "the load")
        if is_deleted:
            lab.s3.delete_object(Bucket=lab.bucket, Key="in/0.csv")
        else:
            put_numbers(lab, "in/0.csv", OTHER)
        with pytest.raises((LoadError, SourceError)):
            task.result()
        assert lab.rows(table) == []
        assert is_clean(lab)
        lab.load("in/*.csv", table, try_number=2)
        assert bag(lab.rows(table)) == bag(FEW[1::3] + FEW[2::3] + ([] if is_deleted else OTHER))

    def test_a_new_one_is_for_the_next_load(self, lab: Lab, table: str, background: Background) -> None:
        task = background(lab.load, "in/*.csv", table, **SLOW_FEW)
        wait_until(lab.running, "the load")
        put_numbers(lab, "in/new.csv", OTHER)
        assert task.result()["files_read"] == 3
        assert bag(lab.rows(table)) == bag(FEW)
        lab.load("in/*.csv", table, task_id="next")
        assert bag(lab.rows(table)) == bag(FEW + OTHER)


class TestSharded:
    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "mode",
        [
            pytest.param(ReplacePartitions(on_partial="replace"), id="partitions"),
            pytest.param(ReplaceWhere("n < 1000"), id="where"),
        ],
    )
    def test_old_rows_go_from_shards_without_new_ones(self, lab: Lab, table: str, mode: Mode) -> None:
        lab.everywhere(f"INSERT INTO {table} VALUES (1), (2)")
        lab.load("in/*.csv", table, mode=mode)
        lab.everywhere(f"INSERT INTO {table} VALUES (3), (4)")
        put_numbers(lab, "one/a.csv", OTHER)
        lab.load("one/*.csv", table, task_id="one", mode=mode)
        assert sorted(len(lab.rows(table, node=node)) for node in lab.nodes()) == [0, 0, 4]
        assert bag(lab.rows(table)) == bag(OTHER)


class TestTables:
    def test_merges_in_staging_do_not_look_like_losses(self, lab: Lab, freeze: Freeze) -> None:
        lab.connect_one_node()
        table = lab.create("t", "n UInt32", "ReplacingMergeTree ORDER BY n")
        for number in range(3):
            put_numbers(lab, f"in/{number}.csv", FEW)
        gate = freeze(Gate("read_partitions", nth=2), "in/*.csv", table)
        (staged,) = lab.left_overs()
        lab.query(f"OPTIMIZE TABLE {lab.database}.{staged} FINAL")
        assert lab.query(f"SELECT count() AS n FROM {lab.database}.{staged}") == [{"n": 30}]
        assert gate.wake() is None
        assert bag(lab.rows(table)) == bag(FEW)
        assert gate.task.result()["rows_written"] == 90

    @pytest.mark.thorough
    def test_rows_that_are_gone_from_staging_are_missed_where_merges_may_fold_them(
        self, lab: Lab, freeze: Freeze
    ) -> None:
        """The logs of the INSERT have rows, and none is there: the load must not succeed, and delete its files."""
        lab.connect_one_node()
        table = lab.create("t", "n UInt32", "ReplacingMergeTree ORDER BY n")
        put_numbers(lab, "in/a.csv", FEW)
        gate = freeze(
            Gate("read_partitions", nth=2), "in/*.csv", table, after_load="delete", checks=Checks(min_rows=0)
        )
        (staged,) = lab.left_overs()
        lab.query(f"TRUNCATE TABLE {lab.database}.{staged}")
        assert re.match("the servers' logs have 30 rows, but .* staged 0, and committed nothing", str(gate.wake()))
        assert (
            lab.load("in/*.csv", table, after_load="delete", checks=Checks(min_rows=0), try_number=2)["rows_written"]
            == 30
        )
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.thorough
    @pytest.mark.parametrize("name", ["it's", "a`b", "a\tb", "'); DROP TABLE t; --"])
    def test_hostile_names(self, lab: Lab, name: str) -> None:
        table = f"{lab.database}.{identifier(name)}"
        lab.ddl(f"CREATE TABLE {table} (n UInt32) ENGINE = {EVEN_AND_ODD}")
        put_numbers(lab, "in/a.csv", OTHER)
        lab.load("in/*.csv", table, mode="replace_partitions")
        assert lab.load("in/*.csv", table, task_id="two")["files_skipped"] == 1
        assert bag(lab.rows(table)) == bag(OTHER)
        assert is_clean(lab)

    @pytest.mark.thorough
    def test_a_new_table_of_the_same_name_holds_nothing_yet(self, lab: Lab, table: str) -> None:
        lab.load("in/*.csv", table)
        lab.ddl(f"DROP TABLE {table} SYNC")
        lab.create("t", "n UInt32", EVEN_AND_ODD)
        lab.load("in/*.csv", table, task_id="two")
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.parametrize(
        ("arguments", "error", "said"),
        [
            pytest.param(
                {"arrivals": Arrivals(min_files=4)}, SourceError, "matches 3 files, but min_files=4", id="files"
            ),
            pytest.param(
                {"checks": Checks(min_rows="31")}, LoadError, "staged 30 rows, fewer than min_rows=31", id="rows"
            ),
            pytest.param({"where": "n > 99"}, LoadError, "staged 0 rows, fewer than min_rows=1", id="no-rows"),
        ],
    )
    def test_too_few(
        self, lab: Lab, table: str, arguments: dict[str, Any], error: type[Exception], said: str
    ) -> None:
        with pytest.raises(error, match=said):
            lab.load("in/*.csv", table, **arguments)
        assert lab.rows(table) == []
        assert is_clean(lab)

    @pytest.mark.parametrize("mode", [Append(on_unknown_rows="keep"), "replace_partitions", "replace_table"], ids=str)
    @pytest.mark.thorough
    def test_no_rows_where_they_are_allowed(self, lab: Lab, table: str, mode: Mode | str) -> None:
        lab.everywhere(f"INSERT INTO {table} VALUES (1)")
        report = lab.load("in/*.csv", table, where="n > 99", mode=mode, checks=Checks(min_rows=0))
        assert report["partitions"] == {}
        assert len(lab.rows(table)) == (0 if mode == "replace_table" else 3)
        assert is_clean(lab)


class TestLedger:
    def test_another_table_of_that_name(self, lab: Lab, table: str) -> None:
        lab.create("ch_s3_ledger", "n UInt32")
        with pytest.raises(TargetError, match=coded("ledger-wrong-table", "ch_s3_ledger")):
            lab.load("in/*.csv", table)
        assert lab.rows(table) == []

    @pytest.mark.thorough
    def test_a_later_schema(self, lab: Lab, table: str) -> None:
        lab.load("in/*.csv", table)
        later = SCHEMA_VERSION + 1
        comment = f"airflow-provider-ch-s3: what its loads did, schema {later}"
        lab.query(f"ALTER TABLE {lab.database}.ch_s3_ledger MODIFY COMMENT '{comment}'", node=1)
        with pytest.raises(
            ConfigError, match=coded("provider-version-differs", f"schema {later}", f"{SCHEMA_VERSION}")
        ):
            lab.load("in/*.csv", table, task_id="two")

    @pytest.mark.thorough
    def test_the_connection_names_its_table(self, lab: Lab, table: str) -> None:
        lab.ddl(f"CREATE DATABASE {lab.database}_ledger ENGINE = Atomic")
        try:
            lab.connect_clickhouse({"ledger_table": f"{lab.database}_ledger.loads"})
            lab.load("in/*.csv", table)
            assert lab.load("in/*.csv", table, task_id="two")["files_skipped"] == 3
            names = lab.query(
                f"SELECT name FROM system.tables WHERE database = '{lab.database}_ledger' ORDER BY name"
            )
            assert names == [{"name": "loads"}, {"name": "loads_files"}]
            assert (
                lab.everywhere(f"SELECT name FROM system.tables WHERE database = '{lab.database}'")
                == [{"name": "t"}] * 3
            )
        finally:
            lab.ddl(f"DROP DATABASE {lab.database}_ledger SYNC")

    def test_the_connections_database_is_missing(self, lab: Lab, table: str) -> None:
        lab.connect_clickhouse({"ledger_table": "no_such.loads"})
        with pytest.raises(ConfigError, match=coded("ledger-missing", "'no_such'", "ledger_table")):
            lab.load("in/*.csv", table)

    @pytest.mark.thorough
    def test_what_another_node_wrote_counts(self, lab: Lab, table: str) -> None:
        lab.load("in/*.csv", table)
        lab.connect_clickhouse(port=lab.sandbox.http_ports[2])
        assert lab.load("in/*.csv", table, task_id="two")["files_skipped"] == 3
        assert lab.load("in/*.csv", table, try_number=2)["rows_written"] == 30
        assert bag(lab.rows(table)) == bag(FEW)

    @pytest.mark.thorough
    def test_holds_no_secret(self, lab: Lab, table: str, freeze: Freeze) -> None:
        gate = freeze(Gate("move_partitions"), "in/*.csv", table)
        shown = lab.everywhere(
            f"SELECT name, comment, create_table_query FROM system.tables WHERE database = '{lab.database}'"
        )
        assert any("ch_s3_stage" in row["name"] for row in shown)
        assert gate.wake() is None
        for name in ("ch_s3_ledger", "ch_s3_ledger_files"):
            found = lab.everywhere(f"SELECT * FROM {lab.database}.{name}")
            assert len(found) >= 3
            shown += found
        text = json.dumps(shown)
        assert lab.sandbox.s3_secret_key not in text
        assert lab.sandbox.password not in text


def test_a_node_that_dies_during_the_insert(fragile_lab: Lab, background: Background) -> None:
    lab = fragile_lab
    put_slow_files(lab)
    table = lab.create("t", "n UInt32")
    task = background(lab.load, "in/*.csv", table, **SLOW)
    wait_until(lambda: len({row["port"] for row in lab.running()}) == 2, "the load on both nodes")
    kill_node(lab.sandbox, 1)
    with pytest.raises(
        ChS3Error
    ):  # the INSERT failed, or the dead node could not be queried for its part of the ledger
        task.result(120)
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")
    assert lab.rows(table) == []
    lab.load("in/*.csv", table, try_number=2)
    assert bag(lab.rows(table)) == bag(ROWS)
    assert is_clean(lab)
