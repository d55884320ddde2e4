"""Rows that a load holds: another task commits them, once, if nothing has changed that the load relied on."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Format, Held, Reject
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.modes import Append, Merge, Mode, ReplacePartitions, ReplaceTable, ReplaceWhere
from airflow_provider_ch_s3.operators.held import ClickHouseCommitHeldOperator, ClickHouseDropHeldOperator
from tests.failures import coded, own_errors
from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Lab, bag
from tests.sandbox.few import EVEN_AND_ODD, FEW, OTHER, die_before, is_clean, make_table, put_numbers
from tests.sandbox.topologies import topologies
from tests.sandbox.worker import running_worker

pytestmark = pytest.mark.sandbox

END = {"commit": ClickHouseCommitHeldOperator, "drop": ClickHouseDropHeldOperator}


def end(lab: Lab, how: str, report: dict[str, Any], table: str) -> Any:
    """Commit or drop what a load holds."""
    operator = END[how](task_id=how, load=report["query_id"], table=table, clickhouse_conn_id="ch")
    with own_errors():
        return operator.execute(lab.context(operator))


def views(lab: Lab) -> list[str]:
    """The views of held rows on any node."""
    found = lab.everywhere(f"SELECT name FROM system.tables WHERE database = '{lab.database}' AND engine = 'View'")
    return sorted({row["name"] for row in found})


def read_held(lab: Lab, report: dict[str, Any]) -> list[dict[str, Any]]:
    return lab.query(f"SELECT * FROM {report['held_in']}")


def is_clear(lab: Lab) -> bool:
    return is_clean(lab) and views(lab) == []


def test_held_rows_are_read_and_committed_once(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = make_table(lab)
    report = lab.load("in/*.csv", table, commit="held", max_tries=1, retries=1)
    assert (report["is_held"], report["rows_written"]) == (True, 30)
    assert lab.rows(table) == []
    assert bag(read_held(lab, report)) == bag(FEW)
    lab.loads()
    assert " held " in capsys.readouterr().out
    again = lab.load("in/*.csv", table, commit="held", max_tries=1, retries=1, try_number=2)
    assert again == report
    put_numbers(lab, "other/0.csv", OTHER)
    lab.load("other/*.csv", table, task_id="other")  # neither waits, nor takes the held rows away
    assert bag(read_held(lab, report)) == bag(FEW)
    committed = end(lab, "commit", report, table)
    assert (committed["is_held"], committed["rows_written"]) == (False, 30)
    assert end(lab, "commit", report, table) == committed
    assert bag(lab.rows(table)) == bag(FEW + OTHER)
    assert is_clear(lab)
    assert lab.load("in/*.csv", table, task_id="later")["files_skipped"] == 3
    with pytest.raises(ChS3Error, match=coded("load-not-held")):
        end(lab, "drop", report, table)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("write_event_committing", id="before-it-begins"),
        pytest.param("move_partitions", id="halfway"),
        pytest.param("write_event_committed", id="before-it-is-recorded"),
    ],
)
@pytest.mark.parametrize("others", [pytest.param(False, id="retried"), pytest.param(True, id="another-load-first")])
@pytest.mark.usefixtures("impatient")
@pytest.mark.thorough  # TestKill in test_exactly_once.py is the same for a commit of a load
def test_a_commit_that_was_killed_is_finished(lab: Lab, statement: str, *, others: bool) -> None:
    table = make_table(lab)
    report = lab.load("in/*.csv", table, commit="held")
    given = {"task_id": "commit", "load": report["query_id"], "table": table, "clickhouse_conn_id": "ch"}
    context = lab.context(ClickHouseCommitHeldOperator(**given))
    before = die_before(statement, 1, signal.SIGKILL)
    with running_worker(given, vars(context["ti"]), lab.started, before, ClickHouseCommitHeldOperator) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    if others:
        put_numbers(lab, "other/0.csv", OTHER)
        lab.load("other/*.csv", table, task_id="other")
        if statement == "write_event_committing":
            assert bag(read_held(lab, report)) == bag(FEW)
    assert end(lab, "commit", report, table)["rows_written"] == 30
    assert bag(lab.rows(table)) == bag(FEW + (OTHER if others else []))
    assert is_clear(lab)


@pytest.mark.thorough
def test_dropped_rows_are_gone_and_their_files_are_new(lab: Lab) -> None:
    table = make_table(lab)
    report = lab.load("in/*.csv", table, commit="held")
    for _ in range(2):
        end(lab, "drop", report, table)
        assert is_clear(lab)
    with pytest.raises(ChS3Error, match=coded("load-not-held")):
        end(lab, "commit", report, table)
    assert lab.rows(table) == []
    lab.load("in/*.csv", table, task_id="later")
    assert bag(lab.rows(table)) == bag(FEW)


@pytest.mark.thorough
@pytest.mark.parametrize("is_found_first", [False, True])
def test_what_has_expired_is_not_committed(lab: Lab, *, is_found_first: bool) -> None:
    table = make_table(lab)
    report = lab.load("in/*.csv", table, commit=Held(hold_seconds=0))
    if is_found_first:
        put_numbers(lab, "other/0.csv", OTHER)
        lab.load("other/*.csv", table, task_id="other")
        assert is_clear(lab)
    with pytest.raises(ChS3Error, match=coded("load-not-held" if is_found_first else "hold-expired")):
        end(lab, "commit", report, table)
    assert bag(lab.rows(table)) == bag(OTHER if is_found_first else [])
    assert is_clear(lab)


@pytest.mark.thorough
def test_a_cleared_load_holds_the_rows_of_its_new_try(lab: Lab) -> None:
    table = make_table(lab)
    first = lab.load("in/*.csv", table, commit="held")
    put_numbers(lab, "in/3.csv", OTHER)
    second = lab.load("in/*.csv", table, commit="held", max_tries=1, try_number=2)
    assert first["held_in"] == second["held_in"]
    assert bag(read_held(lab, second)) == bag(FEW + OTHER)
    with pytest.raises(ChS3Error, match=coded("load-not-held")):
        end(lab, "commit", first, table)
    end(lab, "commit", second, table)
    assert bag(lab.rows(table)) == bag(FEW + OTHER)
    assert is_clear(lab)


@pytest.mark.thorough
def test_files_that_another_load_has_committed(lab: Lab) -> None:
    table = make_table(lab)
    report = lab.load("in/*.csv", table, commit="held")
    lab.load("in/0.csv", table, task_id="other")
    with pytest.raises(ChS3Error, match=coded("held-outdated", "another load has committed", "in/0.csv")):
        end(lab, "commit", report, table)
    assert bag(read_held(lab, report)) == bag(FEW)
    assert bag(lab.rows(table)) == bag(FEW[::3])
    end(lab, "drop", report, table)
    assert is_clear(lab)


@pytest.mark.thorough
def test_a_table_that_was_altered(lab: Lab) -> None:
    table = make_table(lab)
    report = lab.load("in/*.csv", table, commit="held")
    lab.ddl(f"ALTER TABLE {table} ADD COLUMN more UInt8")
    with pytest.raises(ChS3Error, match=coded("held-outdated", "the table was altered")):
        end(lab, "commit", report, table)
    assert bag(read_held(lab, report)) == bag(FEW)
    assert lab.rows(table) == []


NEW = [{"n": 2}, {"n": 4}]
OLD = [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mode", "after"),
    [
        pytest.param(ReplacePartitions(on_partial="replace"), [{"n": 1}, *NEW], id="replace-partitions"),
        pytest.param(ReplaceWhere("n > 1"), [{"n": 0}, {"n": 1}, *NEW], id="replace-where"),
        pytest.param(ReplaceTable(), NEW, id="replace-table"),
        pytest.param(Merge(key=["n"]), [*OLD, {"n": 4}], id="merge"),
    ],
)
def test_the_modes_that_replace(lab: Lab, mode: Mode, after: list[dict[str, int]]) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, "old/0.csv", OLD)
    lab.load("old/*.csv", table, task_id="old")
    put_numbers(lab, "in/0.csv", NEW)
    report = lab.load("in/*.csv", table, commit="held", mode=mode)
    assert bag(lab.rows(table)) == bag(OLD)
    assert sorted(row["n"] for row in read_held(lab, report)) == [2, 4]
    end(lab, "commit", report, table)
    assert bag(lab.rows(table)) == bag(after)
    second = lab.load("in/*.csv", table, commit="held", mode=mode, task_id="second")
    put_numbers(lab, "even/0.csv", [{"n": 6}])
    lab.load("even/*.csv", table, task_id="even")
    with pytest.raises(ChS3Error, match=coded("held-outdated", "another load has committed rows")):
        end(lab, "commit", second, table)
    assert bag(lab.rows(table)) == bag([*after, {"n": 6}])
    end(lab, "drop", second, table)
    assert is_clear(lab)


@pytest.mark.thorough
@pytest.mark.parametrize("is_odd", [False, True])
def test_other_partitions_may_change(lab: Lab, *, is_odd: bool) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    put_numbers(lab, "in/0.csv", NEW)
    report = lab.load("in/*.csv", table, commit="held", mode="replace_partitions")
    lab.query(f"INSERT INTO {table} VALUES ({7 if is_odd else 8})")
    if is_odd:
        end(lab, "commit", report, table)
        assert bag(lab.rows(table)) == bag([*NEW, {"n": 7}])
        return
    with pytest.raises(ChS3Error, match=coded("held-outdated", "somebody has added, changed or deleted rows")):
        end(lab, "commit", report, table)
    assert bag(lab.rows(table)) == bag([{"n": 8}])


@pytest.mark.parametrize(
    "act",
    [
        "ALTER TABLE {t} UPDATE v = 'theirs' WHERE n = 7 SETTINGS mutations_sync = 2",
        thorough("DELETE FROM {t} WHERE n = 7"),
        thorough("OPTIMIZE TABLE {t} FINAL"),
    ],
)
def test_mutations_of_other_partitions_and_merges_change_nothing(lab: Lab, act: str) -> None:
    """A mutation raises the versions of all partitions; a merge removes rows that were deleted before."""
    lab.connect_one_node()
    table = lab.create("t", "n UInt32, v String DEFAULT ''", EVEN_AND_ODD)
    lab.query(f"INSERT INTO {table} (n) VALUES (7), (8), (12)")
    lab.query(f"INSERT INTO {table} (n) VALUES (14)")
    lab.query(f"DELETE FROM {table} WHERE n = 12")
    put_numbers(lab, "in/0.csv", NEW)
    given = {"data_format": Format("CSV", structure="n UInt32"), "commit": "held"}
    report = lab.load("in/*.csv", table, mode=ReplacePartitions(on_partial="replace"), **given)
    lab.query(act.format(t=table))
    end(lab, "commit", report, table)
    assert {row["n"] for row in lab.rows(table)} - {7} == {row["n"] for row in NEW}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "acts",
    [
        [],
        ["ALTER TABLE {t} UPDATE v = 'theirs' WHERE n = 8 SETTINGS mutations_sync = 2"],
        ["ALTER TABLE {t} DELETE WHERE n = 8 SETTINGS mutations_sync = 2", "INSERT INTO {t} VALUES (10, 'theirs')"],
        ["DELETE FROM {t} WHERE n = 8", "OPTIMIZE TABLE {t} FINAL"],
    ],
)
@pytest.mark.parametrize("mode", [ReplacePartitions(on_partial="replace"), ReplaceTable()])
def test_as_many_rows_may_be_other_rows(lab: Lab, mode: Mode, acts: list[str]) -> None:
    lab.connect_one_node()
    table = lab.create("t", "n UInt32, v String DEFAULT ''", EVEN_AND_ODD)
    lab.query(f"INSERT INTO {table} (n) VALUES (8)")
    lab.query(f"INSERT INTO {table} (n) VALUES (12)")
    put_numbers(lab, "in/0.csv", NEW)
    given = {"data_format": Format("CSV", structure="n UInt32"), "commit": "held", "mode": mode}
    report = lab.load("in/*.csv", table, **given)
    lab.query(f"OPTIMIZE TABLE {table} FINAL")  # a merge changes nothing
    for act in acts:
        lab.query(act.format(t=table))
    before = bag(lab.rows(table))
    if not acts:
        end(lab, "commit", report, table)
        assert bag(lab.rows(table, columns="n")) == bag(NEW)
        return
    with pytest.raises(ChS3Error, match=coded("held-outdated", "somebody has added, changed or deleted rows")):
        end(lab, "commit", report, table)
    assert bag(lab.rows(table)) == before
    end(lab, "drop", report, table)


@pytest.mark.thorough
def test_bad_rows_and_views_are_committed_too(lab: Lab) -> None:
    table = lab.create("t", "n UInt32", EVEN_AND_ODD)
    lab.put("in/0.csv", b"1\nx\n")
    report = lab.load("in/*.csv", table, commit="held", bad_rows=Reject(), data_format="CSV")
    assert lab.rows(f"{table}_rejected") == []
    end(lab, "commit", report, table)
    assert (lab.rows(table), len(lab.rows(f"{table}_rejected"))) == ([{"n": 1}], 1)
    seen = lab.create("seen", "n UInt32", EVEN_AND_ODD)
    lab.ddl(f"CREATE MATERIALIZED VIEW {lab.database}.view TO {seen} AS SELECT n FROM {table}")
    put_numbers(lab, "in/1.csv", [{"n": 2}])
    report = lab.load("in/1.csv", table, commit="held", mode=Append(views="replay"), task_id="fed")
    end(lab, "commit", report, table)
    assert bag(lab.rows(table)) == bag([{"n": 1}, {"n": 2}])
    assert lab.rows(seen) == [{"n": 2}]


@pytest.mark.thorough
@topologies("on-cluster", "old-database")
def test_with_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table = make_table(lab)
    report = lab.load("in/*.csv", table, commit="held")
    assert bag(read_held(lab, report)) == bag(FEW)
    end(lab, "commit", report, table)
    assert bag(lab.rows(table)) == bag(FEW)
    assert is_clear(lab)
