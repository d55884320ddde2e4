"""Loads of more files than one chunk takes: each chunk is committed by itself, whatever dies in between."""

from __future__ import annotations

import logging
import signal
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_ch_s3.arguments import Checks, Chunks, Move
from airflow_provider_ch_s3.cli import main
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, NewColumnsError, SourceError, TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.modes import Append
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Freeze, Lab, bag, start_worker
from tests.sandbox.few import EVEN_AND_ODD, die_before, is_clean
from tests.sandbox.gates import Gate
from tests.sandbox.test_after_load import keys

pytestmark = pytest.mark.sandbox

FILES = 7
ROWS = [{"n": 10 * file + row} for file in range(FILES) for row in range(3)]
CHUNKS_OF_3 = {"chunks": Chunks(max_files=3)}


@pytest.fixture
def table(lab: Lab) -> str:
    return lab.create("t", "n UInt32", EVEN_AND_ODD)


@pytest.fixture(autouse=True)
def files(lab: Lab) -> None:
    for file in range(FILES):
        put(lab, file)


def put(lab: Lab, file: int, rows: int = 3) -> None:
    lab.put(f"in/{file}.csv", "".join(f"{10 * file + row}\n" for row in range(rows)).encode())


def chunks_of(report: dict[str, Any]) -> tuple[int, int, int]:
    return report["chunks"], report["files_read"], report["rows_written"]


def test_all_chunks_make_one_load(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    report = lab.load("in/*.csv", table, **CHUNKS_OF_3)
    assert chunks_of(report) == (3, 7, 21)
    assert (report["files_listed"], report["partitions"]) == (7, {"0": 14, "1": 7})
    assert len(lab.inserts()) == 3
    assert report["query_id"] == lab.inserts()[-1]
    assert bag(lab.rows(table)) == bag(ROWS)
    assert is_clean(lab)
    for place in ("1 of about 3: ", "2 of about 3: ", "3 of 3: "):
        assert f"chunk     {place}" in caplog.text
    assert "loaded 21 rows from 7 files, in 3 chunks, into" in caplog.text
    # the next load finds nothing new, and a cleared task neither
    assert lab.load("in/*.csv", table, task_id="next", **CHUNKS_OF_3)["files_skipped"] == 7
    assert lab.load("in/*.csv", table, try_number=2, max_tries=1, **CHUNKS_OF_3)["files_skipped"] == 7


@pytest.mark.thorough
def test_at_the_end_is_one_insert(lab: Lab, table: str) -> None:
    assert chunks_of(lab.load("in/*.csv", table, chunks="off")) == (1, 7, 21)
    assert len(lab.inserts()) == 1


@pytest.mark.thorough
def test_a_chunk_ends_where_its_bytes_do(lab: Lab, table: str) -> None:
    # files of 6 or 9 bytes; a file that is larger than a chunk may be is a chunk of its own
    put(lab, 4, rows=9)
    report = lab.load("in/*.csv", table, chunks=Chunks(max_bytes=20))
    planned = f"SELECT JSONExtractInt(detail, 'files') AS n FROM {lab.database}.ch_s3_ledger WHERE event = 'planned'"
    assert [row["n"] for row in lab.query(f"{planned} ORDER BY epoch")] == [2, 2, 1, 2]
    assert chunks_of(report) == (4, 7, 27)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("statement", "nth", "on_loaded"),
    [
        ("insert_load", 2, "skip"),
        ("move_partitions", 4, "load"),
        ("drop_lock", 4, "load"),
        thorough("write_event_planned", 2, "load"),
        thorough("insert_load", 2, "load"),
        thorough("write_event_committing", 2, "load"),
        thorough("write_event_committed", 2, "load"),
        thorough("drop_staging", 2, "load"),
        thorough("describe_files", 3, "load"),
        thorough("move_partitions", 4, "skip"),
        thorough("drop_lock", 4, "skip"),
    ],
)
def test_a_killed_task_goes_on_with_its_chunk(lab: Lab, table: str, statement: str, nth: int, on_loaded: str) -> None:
    how = {**CHUNKS_OF_3, "mode": Append(on_loaded=on_loaded)}
    with start_worker(lab, table, before=die_before(statement, nth, signal.SIGKILL), **how) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    done = len(lab.inserts())
    report = lab.load("in/*.csv", table, try_number=2, **how)
    assert chunks_of(report) == (3, 7, 21)
    assert bag(lab.rows(table)) == bag(ROWS)
    # at most the chunk that was at work is loaded again
    assert done >= 1
    assert len(lab.inserts()) <= 4
    assert is_clean(lab)


@pytest.mark.thorough
def test_a_chunk_that_the_ledger_has_lost_is_not_loaded_again(lab: Lab, table: str, freeze: Freeze) -> None:
    """Somebody empties the ledger between two chunks."""
    gate = freeze(Gate("drop_lock", 2), "in/*.csv", table, **CHUNKS_OF_3)
    for name in ("ch_s3_ledger", "ch_s3_ledger_files"):
        lab.everywhere(f"TRUNCATE TABLE {lab.database}.{name}")
    error = gate.wake()
    assert isinstance(error, LoadError)
    (insert,) = lab.inserts()
    assert error.sentence == (
        f"{insert} has just been committed into {table}, but the ledger {lab.database}.ch_s3_ledger does not have it"
        " as a part of this load; stopping, so that its rows are not loaded again: they are in the table; check that"
        " nobody has emptied the ledger, and report this"
    )
    assert bag(lab.rows(table)) == bag(ROWS[:9])
    assert is_clean(lab)


@pytest.mark.thorough
def test_what_fails_leaves_the_chunks_before_it(lab: Lab, table: str, caplog: pytest.LogCaptureFixture) -> None:
    lab.put("in/4.csv", b"not a number\n")
    with pytest.raises((LoadError, SourceError)):
        lab.load("in/*.csv", table, **CHUNKS_OF_3)
    assert bag(lab.rows(table)) == bag(ROWS[:9])
    assert "the chunks before chunk 2 stay in the table: clear the task" in caplog.text
    put(lab, 4)
    assert chunks_of(lab.load("in/*.csv", table, try_number=2, **CHUNKS_OF_3)) == (3, 7, 21)
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
def test_a_deferred_task_is_deferred_for_each_chunk(lab: Lab, table: str) -> None:
    how = {**CHUNKS_OF_3, "deferrable": True, "execution_timeout": timedelta(minutes=10)}
    operator = lab.operator("in/*.csv", table, **how)
    context, deferrals, deadlines = lab.context(operator), [], set()
    resume = lambda: operator.execute(context)  # noqa: E731
    report = None
    while report is None:
        try:
            report = resume()
        except TaskDeferred as deferred:
            trigger = deferred.trigger
            deferrals.append(trigger.query_id)
            deadlines.add(trigger.deadline)
            operator = lab.operator("in/*.csv", table, **how)
            event = {"status": "over", "query_id": trigger.query_id, "deadline": trigger.deadline}
            resume = lambda event=event, operator=operator: operator.execute_complete(context, event)  # noqa: E731
    assert deferrals == lab.inserts()
    assert len(deferrals) == 3
    assert len(deadlines) == 1
    assert deadlines != {None}
    assert chunks_of(report) == (3, 7, 21)
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
def test_a_table_that_was_dropped_between_two_chunks_is_loaded_from_the_start(lab: Lab, table: str) -> None:
    with start_worker(lab, table, before=die_before("insert_load", 3, signal.SIGKILL), **CHUNKS_OF_3) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    lab.ddl(f"DROP TABLE {lab.database}.t {{on_cluster}} SYNC")
    lab.create("t", "n UInt32", EVEN_AND_ODD)
    assert chunks_of(lab.load("in/*.csv", table, try_number=2, **CHUNKS_OF_3)) == (3, 7, 21)
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
def test_a_load_mode_that_was_changed_between_two_tries_is_refused(lab: Lab, table: str) -> None:
    with start_worker(lab, table, before=die_before("insert_load", 2, signal.SIGKILL), **CHUNKS_OF_3) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    with pytest.raises(ConfigError, match=coded("arguments-changed", "mode", "'replace_table'", "1 chunk")):
        lab.load("in/*.csv", table, try_number=2, mode="replace_table")
    assert bag(lab.rows(table)) == bag(ROWS[:9])
    lab.load("in/*.csv", table, try_number=3, max_tries=2, mode="replace_table")
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
def test_files_that_were_deleted_between_two_chunks(lab: Lab, table: str) -> None:
    with start_worker(lab, table, before=die_before("insert_load", 3, signal.SIGKILL), **CHUNKS_OF_3) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    lab.s3.delete_object(Bucket=lab.bucket, Key="in/6.csv")
    with pytest.raises(LoadError, match=coded("rows-too-few", "18 rows", "min_rows=21")):
        lab.load("in/*.csv", table, try_number=2, checks=Checks(min_rows=21), **CHUNKS_OF_3)
    assert chunks_of(lab.load("in/*.csv", table, try_number=3, **CHUNKS_OF_3)) == (2, 6, 18)
    assert bag(lab.rows(table)) == bag(ROWS[:18])


@pytest.mark.thorough
def test_each_chunk_moves_its_files_into_a_folder_of_its_own(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table, after_load=Move("done"), **CHUNKS_OF_3)
    folders = Counter(key.split("/")[1] for key in keys(lab, "done/"))
    assert sorted(folders.values()) == [1, 3, 3]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("content", "failure"),
    [
        pytest.param(b"n,k,more\n9,9,9\n", NewColumnsError, id="on_new"),
        pytest.param(b"n\n9\n", TargetError, id="on_missing"),
    ],
)
def test_columns_are_compared_per_chunk(lab: Lab, content: bytes, failure: type[ChS3Error]) -> None:
    table = lab.create("named", "n UInt32, k UInt32")
    for number in range(6):
        lab.put(f"named/{number}.csv", b"n,k\n1,2\n" if number < 3 else content)
    with pytest.raises(failure):
        lab.load("named/*.csv", table, data_format="CSVWithNames", **CHUNKS_OF_3)
    assert bag(lab.rows(table)) == bag([{"n": 1, "k": 2}] * 3)


@pytest.mark.thorough
def test_min_rows_counts_all_chunks(lab: Lab, table: str) -> None:
    with pytest.raises(LoadError, match=coded("rows-too-few", "3 rows", "18 rows", "min_rows=22")):
        lab.load("in/*.csv", table, checks=Checks(min_rows=22), **CHUNKS_OF_3)
    assert bag(lab.rows(table)) == bag(ROWS[:18])
    assert chunks_of(lab.load("in/*.csv", table, try_number=2, checks=Checks(min_rows=21), **CHUNKS_OF_3)) == (
        3,
        7,
        21,
    )


@pytest.mark.thorough
def test_the_ledger_shows_each_chunk(lab: Lab, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.load("in/*.csv", table, **CHUNKS_OF_3)
    assert main(["loads", "--conn-id", "ch", "--database", lab.database]) == 0
    assert capsys.readouterr().out.count("committed") == 3
    load_id = AttemptId.parse(report["query_id"]).load_id
    assert main(["loads", "--conn-id", "ch", "--database", lab.database, "show", load_id]) == 0
    shown = capsys.readouterr().out
    for place in ("1 of about 3", "2 of about 3", "3 of 3"):
        assert f"0 skipped; chunk {place}\n" in shown
