"""What an append that attaches its partitions relies on, and how it is finished after its worker has died."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from airflow_provider_ch_s3.exactly_once.commit import Commit
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.target import TableName
from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Background, Lab, bag, start_worker, wait_until
from tests.sandbox.few import FEW, OTHER, die_before, is_clean, make_table, put_numbers

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]


def die_in_the_commit(lab: Lab, table: str, statement: str, nth: int = 1) -> None:
    with start_worker(lab, table, before=die_before(statement, nth, signal.SIGKILL)) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL, worker.errors()


def merge_away(lab: Lab, table: str) -> None:
    """Merge the parts of each partition, and wait until ClickHouse no longer lists what they were merged from."""
    database, _, name = table.partition(".")
    lab.everywhere(f"ALTER TABLE {table} MODIFY SETTING old_parts_lifetime = 1")
    lab.everywhere(f"OPTIMIZE TABLE {table} FINAL")
    old = f"SELECT name FROM system.parts WHERE database = '{database}' AND table = '{name}' AND NOT active"
    wait_until(lambda: not lab.everywhere(old), "the old parts to go")


@pytest.mark.parametrize("others", [[], thorough(OTHER, id="others-wrote")])
def test_all_has_arrived_and_only_the_record_is_missing(lab: Lab, others: Sequence[dict[str, int]]) -> None:
    table = make_table(lab)
    die_in_the_commit(lab, table, "write_event_committed")
    assert bag(lab.rows(table)) == bag(FEW)
    if others:
        lab.query(f"INSERT INTO {table} VALUES {', '.join(f'''({row['n']})''' for row in others)}")
    lab.everywhere(f"OPTIMIZE TABLE {table} FINAL")
    lab.load("in/*.csv", table, try_number=2)
    assert bag(lab.rows(table)) == bag([*FEW, *others])
    assert is_clean(lab)


@pytest.mark.parametrize(("statement", "nth"), [("attach_partitions", 2), thorough("write_event_committed", 1)])
def test_clones_that_were_merged_away_are_counted(lab: Lab, statement: str, nth: int) -> None:
    table = make_table(lab)
    lab.query(f"INSERT INTO {table} SELECT number FROM numbers(1000, 20)")
    old = lab.rows(table)
    die_in_the_commit(lab, table, statement, nth)
    merge_away(lab, table)
    lab.load("in/*.csv", table, try_number=2)
    assert bag(lab.rows(table)) == bag([*old, *FEW])
    assert is_clean(lab)


def test_rows_that_others_delete_meanwhile_stay_deleted(lab: Lab) -> None:
    table = make_table(lab)
    lab.query(f"INSERT INTO {table} SELECT number FROM numbers(1000, 20)")
    die_in_the_commit(lab, table, "write_event_committed")
    lab.everywhere(f"ALTER TABLE {table} DELETE WHERE n >= 1000 OR n < 10 SETTINGS mutations_sync = 2")
    lab.load("in/*.csv", table, try_number=2)
    assert bag(lab.rows(table)) == bag(FEW[10:])
    assert is_clean(lab)


def test_a_load_says_what_the_target_lacks_and_the_next_one_adds_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An ATTACH that does nothing, although ClickHouse says that it has worked."""
    table = make_table(lab)
    real, calls = Commit._alter, []

    def attach(commit: Commit, *given: object) -> None:
        calls.append(commit)
        if len(calls) > 1:
            real(commit, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Commit, "_alter", attach)
    lab.load("in/*.csv", table)
    assert "lacks rows of" in caplog.text
    assert "after they were committed" in caplog.text
    assert bag(lab.rows(table)) == bag(FEW)
    assert is_clean(lab)


def test_a_second_load_of_equal_files_adds_equal_parts(lab: Lab) -> None:
    table = make_table(lab)
    for task in ("one", "two"):
        lab.load("in/*.csv", table, task_id=task, on_loaded_files="load")
    assert bag(lab.rows(table)) == bag([*FEW, *FEW])
    assert is_clean(lab)


def test_a_merge_that_is_running_is_cancelled(lab: Lab, background: Background) -> None:
    """Otherwise it would replace a staged part after that was cloned."""
    name = TableName(database=lab.database, table="big")
    lab.query(f"CREATE TABLE {name} (k String, v String) ENGINE = MergeTree ORDER BY k")
    lab.query(staging_queries.render_hold_merges(name, None).text)
    for number in range(4):
        rows = (
            f"toString(cityHash64(number, {number})), repeat(toString(cityHash64(number)), 10) FROM numbers(700000)"
        )
        lab.query(f"INSERT INTO {name} SELECT {rows} SETTINGS max_insert_threads = 1, max_block_size = 1000000")
    parts = f"SELECT name FROM system.parts WHERE database = '{lab.database}' AND active ORDER BY name"
    merges = f"SELECT table FROM system.merges WHERE database = '{lab.database}'"
    staged = lab.query(parts)
    merging = background(lab.query, f"OPTIMIZE TABLE {name} FINAL")
    wait_until(lambda: merging.done() or lab.query(merges), "the merge")
    assert not merging.done()
    lab.query(staging_queries.render_cancel_merges(name).text)
    assert lab.query(merges) == []
    assert "Cancelled" in str(merging.exception())
    assert lab.query(parts) == staged


def test_rows_of_a_replacing_table_are_moved(lab: Lab) -> None:
    """After merges nobody could count which rows have arrived."""
    put_numbers(lab, "in/a.csv", FEW)
    table = lab.create("t", "n UInt32", "ReplacingMergeTree PARTITION BY n % 2 ORDER BY n")
    die_in_the_commit(lab, table, "write_event_committed")
    merge_away(lab, table)
    lab.load("in/*.csv", table, try_number=2)
    assert bag(lab.rows(table)) == bag(FEW)
    assert is_clean(lab)
