"""A table that was renamed, exchanged, copied or replaced by another one: what it holds goes by its UUID."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import LoadError, TargetError
from airflow_provider_ch_s3.modes import ReplacePartitions
from tests.failures import coded
from tests.sandbox.conftest import WAIT_SECONDS, Lab, bag, start_worker
from tests.sandbox.few import EVEN_AND_ODD, FEW, OTHER, die_before, is_clean, make_table, put_numbers, stand_in_line
from tests.sandbox.topologies import only_on

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]


@pytest.fixture
def table(lab: Lab) -> str:
    return make_table(lab)


def rename(lab: Lab, table: str, to: str) -> None:
    lab.ddl(f"RENAME TABLE {table} TO {to} {{on_cluster}}")


@contextmanager
def renamed_database(lab: Lab) -> Iterator[None]:
    """Give the test's database another name, for a while."""
    old, new = lab.database, f"{lab.database}_new"
    for given, wanted in ((old, new), (new, old)):
        for node in lab.nodes():
            lab.query(f"RENAME DATABASE {given} TO {wanted}", node=node)
        lab.database = wanted
        lab.connect_clickhouse()
        if wanted == new:
            yield


@pytest.mark.thorough
def test_a_renamed_table_keeps_its_files(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table)
    renamed = f"{lab.database}.renamed"
    rename(lab, table, renamed)
    put_numbers(lab, "in/new.csv", OTHER)
    report = lab.load("in/*.csv", renamed, task_id="after")
    assert (report["files_skipped"], report["files_read"]) == (3, 1)
    assert bag(lab.rows(renamed)) == bag(FEW + OTHER)
    rename(lab, renamed, table)
    assert lab.load("in/*.csv", table, task_id="back")["files_skipped"] == 4
    assert bag(lab.rows(table)) == bag(FEW + OTHER)


@pytest.mark.thorough
def test_a_table_of_a_renamed_database_keeps_its_files(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table)
    put_numbers(lab, "in/new.csv", OTHER)
    with renamed_database(lab):
        report = lab.load("in/*.csv", "t", task_id="after")
        assert (report["files_skipped"], report["files_read"]) == (3, 1)
        assert bag(lab.rows(f"{lab.database}.t")) == bag(FEW + OTHER)
    assert lab.load("in/*.csv", "t", task_id="back")["files_skipped"] == 4


def die_in(lab: Lab, table: str, statement: str, nth: int) -> None:
    """Load one file, and die while the others are being loaded."""
    lab.load("in/0.csv", table, task_id="first")
    with start_worker(lab, table, before=die_before(statement, nth, signal.SIGKILL)) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    assert not is_clean(lab)


DEATHS = pytest.mark.parametrize(
    ("statement", "nth"),
    [
        pytest.param("insert_load", 1, id="before-the-insert"),
        pytest.param("move_partitions", 2, id="in-the-commit"),
        pytest.param("write_event_committing", 1, id="before-the-commit"),
        pytest.param("drop_staging", 1, id="after-the-commit"),
    ],
)


@pytest.mark.thorough
@DEATHS
def test_a_dead_load_leaves_nothing_under_the_old_name(lab: Lab, table: str, statement: str, nth: int) -> None:
    die_in(lab, table, statement, nth)
    renamed = f"{lab.database}.renamed"
    rename(lab, table, renamed)
    report = lab.load("in/*.csv", renamed, task_id="after")
    assert report["files_skipped"] == (1 if statement in ("insert_load", "write_event_committing") else 3)
    assert bag(lab.rows(renamed)) == bag(FEW)
    assert is_clean(lab)


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
def test_a_place_in_the_line_under_the_old_name_does_not_stay(lab: Lab, table: str) -> None:
    lab.load("in/0.csv", table, task_id="first")
    stand_in_line(lab, table, 7)
    renamed = f"{lab.database}.renamed"
    rename(lab, table, renamed)
    lab.load("in/*.csv", renamed, task_id="after")
    assert bag(lab.rows(renamed)) == bag(FEW)
    assert is_clean(lab)


@pytest.mark.thorough
@DEATHS
def test_a_dead_load_leaves_nothing_in_a_renamed_database(lab: Lab, table: str, statement: str, nth: int) -> None:
    die_in(lab, table, statement, nth)
    with renamed_database(lab):
        lab.load("in/*.csv", "t", task_id="after")
        assert bag(lab.rows(f"{lab.database}.t")) == bag(FEW)
        assert is_clean(lab)


@pytest.mark.thorough
def test_what_was_replaced_under_one_name_is_known_under_the_other(lab: Lab, table: str) -> None:
    for number in range(3):
        lab.load("in/*.csv", table, task_id=f"before{number}", mode="replace_table")
    renamed = f"{lab.database}.renamed"
    rename(lab, table, renamed)
    put_numbers(lab, "other/new.csv", OTHER)
    lab.load("other/*.csv", renamed, task_id="replace", mode="replace_table")
    assert lab.load("in/*.csv", renamed, task_id="append")["files_skipped"] == 0
    assert bag(lab.rows(renamed)) == bag(FEW + OTHER)


@pytest.mark.thorough
def test_two_tables_that_changed_names_keep_what_is_theirs(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table)
    put_numbers(lab, "other/a.csv", OTHER)
    new = lab.create("new", "n UInt32", EVEN_AND_ODD)
    lab.load("other/*.csv", new, task_id="new")
    lab.ddl(f"EXCHANGE TABLES {table} AND {new} {{on_cluster}}")
    assert lab.load("other/*.csv", table, task_id="live")["files_skipped"] == 1
    assert bag(lab.rows(table)) == bag(OTHER)
    assert lab.load("in/*.csv", new, task_id="old")["files_skipped"] == 3
    assert lab.load("in/*.csv", table, task_id="live2")["files_skipped"] == 0
    assert bag(lab.rows(table)) == bag(FEW + OTHER)
    assert bag(lab.rows(new)) == bag(FEW)
    assert lab.loads("prune", "--older-than-days", "0") == 0
    assert lab.load("*/*.csv", table, task_id="pruned")["files_skipped"] == 4
    assert lab.load("in/*.csv", new, task_id="pruned")["files_skipped"] == 3


def copy(lab: Lab, table: str) -> None:
    """Put a copy in place of the table, as RESTORE does."""
    lab.ddl(f"CREATE TABLE {table}_copy {{on_cluster}} AS {table}")
    for node in lab.nodes()[:: lab.sandbox.replicas]:
        lab.query(f"INSERT INTO {table}_copy SELECT * FROM {table}", node=node)
    lab.sync(f"{table}_copy")
    lab.ddl(f"DROP TABLE {table} {{on_cluster}} SYNC")
    rename(lab, f"{table}_copy", table)


def restore(lab: Lab, table: str) -> None:
    """Put a backup in place of the table; the engine without Keeper can make none."""
    keys = f"'{lab.sandbox.s3_access_key}', '{lab.sandbox.s3_secret_key}'"
    place = f"S3('{lab.sandbox.s3_endpoint}/{lab.bucket}/backup', {keys})"
    lab.query(f"BACKUP TABLE {table} ON CLUSTER {lab.sandbox.cluster} TO {place}")
    lab.ddl(f"DROP TABLE {table} {{on_cluster}} SYNC")
    lab.query(f"RESTORE TABLE {table} ON CLUSTER {lab.sandbox.cluster} FROM {place}")
    lab.sync(table)


def test_a_copy_under_a_known_name_is_refused_until_it_is_adopted(lab: Lab, table: str) -> None:
    refused_until_adopted(lab, table, copy)


def refused_until_adopted(lab: Lab, table: str, replace: Callable[[Lab, str], None]) -> None:
    lab.load("in/*.csv", table)
    replace(lab, table)
    with pytest.raises(TargetError, match=coded("table-replaced", f"`ch-s3 loads adopt {table}`")):
        lab.load("in/*.csv", table, task_id="copied")
    assert bag(lab.rows(table)) == bag(FEW)
    assert lab.loads("adopt", table) == 0
    assert lab.load("in/*.csv", table, task_id="adopted")["files_skipped"] == 3
    assert lab.loads("adopt", table) == 1  # nothing to decide any more
    assert bag(lab.rows(table)) == bag(FEW)


@pytest.mark.thorough
def test_a_copy_that_begins_anew(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table)
    copy(lab, table)
    assert lab.loads("adopt", table, "--anew") == 0
    assert lab.load("in/*.csv", table, task_id="anew")["files_skipped"] == 0
    assert bag(lab.rows(table)) == bag(FEW + FEW)


@pytest.mark.thorough
def test_a_copy_under_another_name_adopts_by_that_name(lab: Lab, table: str) -> None:
    lab.load("in/*.csv", table)
    other = f"{lab.database}.other"
    lab.ddl(f"CREATE TABLE {other} AS {table}")
    lab.ddl(f"INSERT INTO {other} SELECT * FROM {table}")
    assert lab.loads("adopt", other, "--from", table) == 0
    assert lab.load("in/*.csv", other, task_id="other")["files_skipped"] == 3
    put_numbers(lab, "in/new.csv", OTHER)
    lab.load("in/*.csv", table, task_id="more")
    assert lab.load("in/*.csv", other, task_id="other2")["files_skipped"] == 3  # not what came later
    assert bag(lab.rows(other)) == bag(FEW + OTHER)


@pytest.mark.thorough
@pytest.mark.parametrize("together", [True, False], ids=["one-load", "a-load-for-each-file"])
def test_a_part_of_an_attempt_was_replaced(lab: Lab, together: bool) -> None:
    table = lab.create("days", "day Date, n UInt32", "MergeTree PARTITION BY day ORDER BY n")
    arguments = {"data_format": Format("CSV", structure="day Date, n UInt32")}
    for day in (1, 2):
        lab.put(f"in/{day}.csv", f"2013-01-0{day},{day}\n".encode())
    for day in ("*",) if together else (1, 2):
        lab.load(f"in/{day}.csv", table, task_id=f"first{day}".replace("*", ""), **arguments)
    lab.put("corrected/1.csv", b"2013-01-01,100\n")
    how = {"mode": ReplacePartitions(on_partial="replace"), **arguments}
    lab.load("corrected/1.csv", table, task_id="corrected", **how)
    if together:
        with pytest.raises(LoadError, match=coded("partition-partly-replaced", "in/1.csv", "20130101")):
            lab.load("in/*.csv", table, task_id="again", **arguments)
        assert sorted(row["n"] for row in lab.rows(table)) == [2, 100]
        # the remedy
        lab.load("in/*.csv", table, task_id="remedy", **how)
        assert lab.load("in/*.csv", table, task_id="last", **arguments)["files_skipped"] == 2
        assert sorted(row["n"] for row in lab.rows(table)) == [1, 2]
    else:
        # the table does not hold the first file any more, and that is certain
        report = lab.load("in/*.csv", table, task_id="again", **arguments)
        assert (report["files_skipped"], report["files_read"]) == (1, 1)


@pytest.mark.parametrize(
    "case",
    [
        test_a_renamed_table_keeps_its_files,
        test_a_table_of_a_renamed_database_keeps_its_files,
        test_two_tables_that_changed_names_keep_what_is_theirs,
        test_a_copy_under_a_known_name_is_refused_until_it_is_adopted,
        partial(refused_until_adopted, replace=restore),
        partial(test_a_dead_load_leaves_nothing_under_the_old_name, statement="insert_load", nth=1),
        partial(test_a_dead_load_leaves_nothing_under_the_old_name, statement="move_partitions", nth=1),
    ],
    ids=["renamed", "database", "exchanged", "copied", "restored", "died-before", "died-in-commit"],
)
@only_on("old", "on-cluster")
@pytest.mark.thorough
def test_on_replicas(replicated_lab: Lab, case: Callable[[Lab, str], None]) -> None:
    case(replicated_lab, make_table(replicated_lab))
