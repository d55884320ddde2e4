"""``ch-s3 loads undo``: the rows of a load go, exactly, and its files can be loaded again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Chunks, Columns
from airflow_provider_ch_s3.errors import CheckFailedError, ConfigError
from airflow_provider_ch_s3.exactly_once.modes import undo
from airflow_provider_ch_s3.modes import Append, Merge, ReplacePartitions
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Lab, start_worker
from tests.sandbox.few import die_before, is_clean
from tests.sandbox.test_provenance import BY_TENS, COLUMNS, FILES, put
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox


def numbers(lab: Lab, table: str) -> list[int]:
    return sorted(row["n"] for row in lab.rows(table, columns="n"))


def two_loads(lab: Lab) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Load two files one after the other, into a partition that both have rows for and one each of its own."""
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1, 2, 11)
    first = lab.load("in/a.csv", table, task_id="first", **FILES)
    put(lab, "in/b.csv", 3, 21)
    second = lab.load("in/*.csv", table, task_id="second", **FILES)
    assert numbers(lab, table) == [1, 2, 3, 11, 21]
    return table, first, second


def load_id_of(report: dict[str, Any]) -> str:
    return str(report["query_id"].rsplit("-", 3)[0])


def test_the_rows_of_one_load_go(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table, first, second = two_loads(lab)
    load = load_id_of(first)
    assert lab.loads("undo", load, "--dry-run") == 0
    assert (
        f"{load} into {table}: would remove 3 rows of 2 partitions (0, 1); 1 file can be" in capsys.readouterr().out
    )
    assert lab.loads("undo", load) == 1
    said = capsys.readouterr().err
    assert f"{load} into {table}: would remove 3 rows" in said
    assert "nothing was removed: give --yes, as there is no terminal to ask on" in said
    assert numbers(lab, table) == [1, 2, 3, 11, 21]
    assert lab.loads("undo", "--yes", load) == 0
    assert f"{load} into {table}: removed 3 rows of 2 partitions (0, 1)" in capsys.readouterr().out
    assert numbers(lab, table) == [3, 21]
    assert is_clean(lab)
    lab.loads("undo", "--yes", first["query_id"])
    assert "is undone already" in capsys.readouterr().out
    lab.loads("--state", "undone")
    assert load in capsys.readouterr().out
    with pytest.raises(ConfigError, match=coded("load-undone", first["query_id"])):
        lab.load("in/*.csv", table, task_id="first", try_number=2, **FILES)  # a retry
    again = lab.load("in/*.csv", table, task_id="first", max_tries=2, try_number=2, **FILES)
    assert (again["files_listed"], again["files_skipped"]) == (1, 1)
    assert numbers(lab, table) == [1, 2, 3, 11, 21]
    lab.loads("undo", "--yes", second["query_id"])
    assert numbers(lab, table) == [1, 2, 11]


@pytest.mark.thorough
def test_all_chunks_of_a_load_go(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_TENS)
    for number in range(3):
        put(lab, f"in/{number}.csv", number, 10 + number)
    report = lab.load("in/*.csv", table, chunks=Chunks(max_files=1), **FILES)
    assert numbers(lab, table) == [0, 1, 2, 10, 11, 12]
    lab.loads("undo", "--yes", report["query_id"])
    assert numbers(lab, table) == [0, 1, 10, 11]
    lab.loads("undo", "--yes", load_id_of(report))
    assert numbers(lab, table) == []


@pytest.mark.thorough
def test_what_cannot_be_undone(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(load: str, why: str) -> None:
        capsys.readouterr()
        for how in ("--yes", "--dry-run"):
            assert lab.loads("undo", how, load) == 1
            assert why in capsys.readouterr().err
        assert is_clean(lab)

    table, first, _ = two_loads(lab)
    refuse("ch-s3-x", "has no load 'ch-s3-x'")
    again = lab.load("in/b.csv", table, mode=ReplacePartitions(on_partial="replace"), **FILES)
    refuse(load_id_of(again), "only mode='append' can be undone")
    refuse(load_id_of(first), "holds 1 row of this load, which added 3")
    put(lab, "in/b.csv", 4)
    replaced = lab.load("in/b.csv", table, task_id="replaced", mode=Append(on_changed="replace"), **FILES)
    refuse(load_id_of(replaced), "mode='replace_files', and what it replaced is gone")
    put(lab, "in/c.csv", 31, 32)
    third = lab.load("in/c.csv", table, task_id="third", **FILES)
    lab.everywhere(f"ALTER TABLE {table} DELETE WHERE n = 31 SETTINGS mutations_sync = 2")
    refuse(load_id_of(third), "holds 1 row of this load, which added 2")
    silent = {**FILES, "provenance": None, "mode": Append(on_loaded="load"), "columns": Columns(on_missing="default")}
    refuse(load_id_of(lab.load("in/c.csv", table, task_id="silent", **silent)), "no column tells which rows")
    merged = lab.create("merged", COLUMNS, BY_TENS)
    before = lab.load("in/a.csv", merged, task_id="before", **FILES)
    lab.load("in/a.csv", merged, task_id="merge", mode=Merge(key=["n"]), **FILES)
    refuse(load_id_of(before), f"merged files into {merged} after {before['query_id']}")  # the rows are still there
    assert numbers(lab, merged) == [1, 2, 11]
    folded = lab.create("folded", COLUMNS, "ReplacingMergeTree ORDER BY n")
    refuse(load_id_of(lab.load("in/c.csv", folded, **FILES)), "may fold or remove rows")


@pytest.mark.thorough
def test_a_load_that_fed_a_view(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table, first, _ = two_loads(lab)
    seen = lab.create("seen", "n UInt32", BY_TENS)
    lab.ddl(f"CREATE MATERIALIZED VIEW {lab.database}.view TO {seen} AS SELECT n FROM {table}")
    put(lab, "in/c.csv", 41)
    fed = lab.load("in/c.csv", table, task_id="fed", mode=Append(views="replay"), **FILES)
    for is_there in (True, False):
        assert lab.loads("undo", "--yes", load_id_of(fed)) == 1
        assert "materialized views, or a table of rejected rows, may also have rows of" in capsys.readouterr().err
        if is_there:
            assert lab.loads("undo", "--yes", load_id_of(first)) == 1  # whoever reads the view may rely on them
            lab.ddl(f"DROP TABLE {lab.database}.view SYNC")
    assert lab.loads("undo", "--yes", load_id_of(first)) == 0
    assert numbers(lab, table) == [3, 21, 41]
    assert numbers(lab, seen) == [41]


@pytest.mark.thorough
@pytest.mark.parametrize("sharding_key", ["rand()", "n"])
def test_in_a_distributed_table(lab: Lab, sharding_key: str) -> None:
    local = lab.create("t", COLUMNS, BY_TENS)
    table = lab.distribute(local, sharding_key)
    put(lab, "in/a.csv", *range(40))
    put(lab, "in/b.csv", *range(100, 120))
    first = lab.load("in/a.csv", table, task_id="first", **FILES)
    lab.load("in/b.csv", table, task_id="second", **FILES)
    assert lab.loads("undo", "--yes", load_id_of(first)) == 0
    assert numbers(lab, local) == [*range(100, 120)]
    assert is_clean(lab)


@pytest.mark.thorough
def test_the_list_and_the_files_of_an_undone_load(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table, first, second = two_loads(lab)
    lab.loads("undo", "--yes", load_id_of(first))
    capsys.readouterr()
    lab.loads("show", load_id_of(first), "--json")
    shown = json.loads(capsys.readouterr().out)
    (undone,) = shown["attempts"]
    assert (undone["state"], undone["rows"], undone["ended"] > undone["started"]) == ("undone", None, True)
    assert [(file["state"], file["why"]) for file in shown["files"]] == [
        ("undone", "loaded, and the load was undone: a load takes the file again")
    ]
    lab.loads("prune", "--older-than-days", "0")
    # what was forgotten is still not held, and what is held is not forgotten
    report = lab.load("in/*.csv", table, task_id="third", **FILES)
    assert (report["files_listed"], report["files_skipped"]) == (1, 1)
    capsys.readouterr()
    for name in (load_id_of(second), second["query_id"]):
        assert lab.loads("undo", "--yes", name) == 1
        assert f"prune` has deleted the details of {name} from the ledger" in capsys.readouterr().err
    assert lab.loads("show", load_id_of(second)) == 1
    assert "so the load can be neither shown nor undone" in capsys.readouterr().err
    assert lab.loads("undo", "--yes", second["query_id"].replace("-insert", "0-insert")) == 1
    assert "has no load" in capsys.readouterr().err
    assert numbers(lab, table) == [1, 2, 3, 11, 21]


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
def test_a_chunk_is_not_undone_while_its_load_is_not_over(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", COLUMNS, BY_TENS)
    for number in range(2):
        put(lab, f"in/{number}.csv", number)
    dies = die_before("insert_load", 2, signal.SIGKILL)
    how: dict[str, Any] = {**FILES, "chunks": Chunks(max_files=1)}
    with start_worker(lab, table, max_tries=1, before=dies, **how) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    lab.loads("--json")
    first = next(one for one in json.loads(capsys.readouterr().out)["loads"] if one["state"] == "committed")
    for name in (first["query_id"], first["load_id"]):
        assert lab.loads("undo", "--yes", name) == 1
        assert "is not over" in capsys.readouterr().err
    lab.load("in/*.csv", table, try_number=2, max_tries=1, **how)
    assert lab.loads("undo", "--yes", first["query_id"]) == 0
    assert numbers(lab, table) == [1]


@pytest.mark.thorough
def test_loads_that_one_commit_cannot_undo(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", f"{COLUMNS}, loaded_by String DEFAULT ''", BY_TENS)
    put(lab, "in/0.csv", 0)
    with pytest.raises(CheckFailedError):
        lab.load("in/*.csv", table, task_id="failed", checks={"none": "count() = 0"}, **FILES)
    capsys.readouterr()
    lab.loads("--json")
    failed = json.loads(capsys.readouterr().out)["loads"][0]["load_id"]
    first = lab.load("in/*.csv", table, **FILES)["query_id"]
    for number in (1, 2):
        put(lab, f"in/{number}.csv", number)
    other = {**FILES, "provenance": {"loaded_by": "load"}, "columns": Columns(on_missing="default")}
    last = lab.load(
        "in/*.csv", table, max_tries=2, try_number=2, chunks=Chunks(max_files=1), **other
    )  # it was cleared
    for load, why in (
        (failed, f"{failed} was never committed, so there is nothing to undo"),
        (load_id_of(last), "have their ids in several columns (load_id, loaded_by); undo each"),
    ):
        assert lab.loads("undo", "--yes", load) == 1
        assert why in capsys.readouterr().err
    assert lab.loads("undo", "--yes", first) == 0
    assert numbers(lab, table) == [1, 2]
    lab.monkeypatch.setattr(undo, "MAX_KEY_LIST_BYTES", 100)
    assert lab.loads("undo", "--yes", load_id_of(last)) == 1
    assert "has 2 chunks, more than one commit may name; undo them one by one" in capsys.readouterr().err
    assert lab.loads("undo", "--yes", last["query_id"]) == 0
    assert numbers(lab, table) == [1]
    assert is_clean(lab)


@pytest.mark.thorough
def test_a_table_that_was_exchanged_or_altered(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table, first, second = two_loads(lab)
    lab.everywhere(f"CREATE TABLE {lab.database}.other AS {table}")
    lab.everywhere(f"EXCHANGE TABLES {lab.database}.other AND {table}")
    capsys.readouterr()
    assert lab.loads("undo", "--yes", load_id_of(first)) == 1
    assert "was loaded into another table" in capsys.readouterr().err
    lab.everywhere(f"EXCHANGE TABLES {lab.database}.other AND {table}")
    lab.everywhere(f"ALTER TABLE {table} ADD COLUMN later UInt8 DEFAULT 7")
    assert lab.loads("undo", "--yes", load_id_of(first)) == 0
    assert [(row["n"], row["later"]) for row in lab.rows(table, columns="n, later") if row["n"] < 4] == [(3, 7)]
    lab.everywhere(f"ALTER TABLE {table} RENAME COLUMN load_id TO loaded_by")
    assert lab.loads("undo", "--yes", load_id_of(second)) == 1
    assert "no longer has the column 'load_id'" in capsys.readouterr().err


def undo_and_die(lab: Lab, load: str, statement: str, nth: int) -> None:
    undo = ["loads", "--conn-id", "ch", "--database", lab.database, "undo", "--yes", load]
    dies = die_before(statement, nth, signal.SIGKILL)
    code = f"{dies}\nfrom airflow_provider_ch_s3.cli import main\nmain({undo!r})"
    killed = subprocess.run([sys.executable, "-c", code], check=False, timeout=5 * WAIT_SECONDS)
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
def test_a_second_undo_cleans_up_after_one_that_was_killed(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table, first, _ = two_loads(lab)
    undo_and_die(lab, load_id_of(first), "drop_lock", 4)
    assert numbers(lab, table) == [3, 21]
    assert lab.loads("undo", "--dry-run", load_id_of(first)) == 0
    assert not is_clean(lab)
    assert lab.loads("undo", "--yes", load_id_of(first)) == 0
    assert capsys.readouterr().out.count("is undone already; nothing to do") == 2
    assert is_clean(lab)


STATEMENTS = {
    "before-the-commit": ("write_event_committing", 1),
    "in-the-middle": ("replace_partitions", 2),
    "before-the-ledger-knows": ("write_event_undone", 1),
    "before-the-ledger-knows-the-end": ("write_event_committed", 1),
}


@pytest.mark.thorough
@pytest.mark.every_case
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("statement", [one if one == "in-the-middle" else thorough(one) for one in STATEMENTS])
def test_an_undo_that_is_killed_is_finished_by_the_next_load(lab: Lab, statement: str) -> None:
    table, first, _ = two_loads(lab)
    undo_and_die(lab, load_id_of(first), *STATEMENTS[statement])
    put(lab, "in/c.csv", 31)
    report = lab.load("in/*.csv", table, task_id="third", **FILES)
    # Before the commit nothing is decided; from then on the next load finds the undo done, and the file new.
    is_undone = statement != "before-the-commit"
    assert report["files_listed"] == (2 if is_undone else 1)
    assert numbers(lab, table) == [1, 2, 3, 11, 21, 31]
    if is_undone:
        loads = {row["n"]: row["load_id"] for row in lab.rows(table, columns="n, load_id")}
        assert {loads[n] for n in (1, 2, 11, 31)} == {report["query_id"]}
    assert lab.loads("undo", "--yes", load_id_of(first)) == 0
    assert numbers(lab, table) == ([1, 2, 3, 11, 21, 31] if is_undone else [3, 21, 31])
    assert is_clean(lab)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("statement", [one if one == "in-the-middle" else thorough(one) for one in STATEMENTS])
def test_an_undo_that_is_killed_is_finished_by_the_next_undo(
    lab: Lab, statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, first, _ = two_loads(lab)
    undo_and_die(lab, load_id_of(first), *STATEMENTS[statement])
    capsys.readouterr()
    was_begun = statement != "before-the-commit"
    assert lab.loads("undo", "--dry-run", load_id_of(first)) == int(was_begun)
    assert ("[commit-unfinished]" in capsys.readouterr().err) == was_begun
    assert lab.loads("undo", "--yes", load_id_of(first)) == 0
    assert ("is undone already" in capsys.readouterr().out) == was_begun
    assert numbers(lab, table) == [3, 21]
    assert is_clean(lab)


@pytest.mark.thorough
@topologies("on-cluster", "old-database")
def test_on_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table, first, _ = two_loads(lab)
    assert lab.loads("undo", "--yes", load_id_of(first)) == 0
    assert numbers(lab, table) == [3, 21]
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_a_load_under_an_earlier_name_is_undone_as_the_message_says(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    table, first, second = two_loads(lab)
    renamed = f"{lab.database}.renamed"
    lab.ddl(f"RENAME TABLE {table} TO {renamed} {{on_cluster}}")
    put(lab, "in/c.csv", 31)
    lab.load("in/*.csv", renamed, task_id="third", **FILES)
    capsys.readouterr()
    assert lab.loads("undo", "--yes", load_id_of(first)) == 1
    said = capsys.readouterr().err
    assert f"was loaded into {table}, which is not there any more" in said
    assert "give it this name again (RENAME TABLE), undo the load, and rename it back" in said
    assert numbers(lab, renamed) == [1, 2, 3, 11, 21, 31]
    lab.ddl(f"RENAME TABLE {renamed} TO {table} {{on_cluster}}")
    assert lab.loads("undo", "--yes", load_id_of(first)) == 0
    lab.ddl(f"RENAME TABLE {table} TO {renamed} {{on_cluster}}")
    assert numbers(lab, renamed) == [3, 21, 31]
    report = lab.load("in/*.csv", renamed, task_id="fourth", **FILES)
    assert (report["files_listed"], report["files_skipped"]) == (1, 2)
    assert numbers(lab, renamed) == [1, 2, 3, 11, 21, 31]
    assert lab.loads("undo", "--yes", second["query_id"]) == 1
    assert is_clean(lab)


@pytest.mark.usefixtures("impatient")
@pytest.mark.thorough
def test_a_try_that_died_for_good_is_abandoned_on_demand(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1, 11)
    put(lab, "in/b.csv", 2)
    load = load_id_of(lab.load("in/*.csv", table, **FILES))
    put(lab, "in/a.csv", 3)
    lab.load("in/a.csv", table, task_id="more", mode=Append(on_changed="load"), **FILES)
    put(lab, "in/c.csv", 31)
    dies = die_before("insert_load", 1, signal.SIGKILL)
    with start_worker(lab, table, try_number=2, max_tries=2, before=dies, **FILES) as cleared:
        assert cleared.wait(WAIT_SECONDS) == -signal.SIGKILL
    assert lab.loads("undo", "--yes", load) == 1
    assert "is not over: its task is running" in (said := capsys.readouterr().err)
    assert "if that try has died for good, repeat this with --abandon" in said
    what = "3 rows of 2 partitions (0, 1); 1 file can be loaded again, and the table keeps another version of 1 file"
    for how, done in (("--dry-run", "would remove"), ("--yes", "removed")):
        assert lab.loads("undo", load, "--abandon", how) == 0
        assert f"{load} into {table}: {done} {what}" in capsys.readouterr().out
    assert numbers(lab, table) == [3]
    assert is_clean(lab)
    report = lab.load("in/{b,c}.csv", table, task_id="again", **FILES)
    assert (report["files_listed"], numbers(lab, table)) == (2, [2, 3, 31])
