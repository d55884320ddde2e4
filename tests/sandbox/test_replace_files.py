"""``on_changed_files="replace"``: a file that changed replaces the rows of its older versions, and no others."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, LoadError
from tests.marks import thorough
from tests.sandbox.conftest import WAIT_SECONDS, Lab, start_worker
from tests.sandbox.few import die_before, is_clean
from tests.sandbox.test_provenance import BY_TENS, COLUMNS, FILES, origins, put
from tests.sandbox.topologies import topologies

pytestmark = pytest.mark.sandbox

REPLACING: dict[str, Any] = {**FILES, "on_changed_files": "replace"}


def files(lab: Lab, table: str) -> dict[int, str]:
    return {number: name for number, (name, _) in origins(lab, table).items()}


def loaded(lab: Lab, **arguments: Any) -> str:
    """A table with the rows of two files, and one that no load has written."""
    table = lab.create("t", COLUMNS, BY_TENS)
    lab.query(f"INSERT INTO {table} (n) VALUES (19)")
    put(lab, "in/a.csv", 1, 2, 11)
    put(lab, "in/b.csv", 3, 12, 31)
    lab.load("in/*.csv", table, task_id="first", **{**REPLACING, **arguments})
    assert files(lab, table) == {1: "a.csv", 2: "a.csv", 11: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 19: ""}
    return table


def test_a_changed_file_replaces_its_rows(lab: Lab) -> None:
    table = loaded(lab)
    put(lab, "in/a.csv", 2, 22)
    put(lab, "in/c.csv", 4)
    report = lab.load("in/*.csv", table, task_id="second", **REPLACING)
    after = {2: "a.csv", 22: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 4: "c.csv", 19: ""}
    assert files(lab, table) == after
    assert (report["files_listed"], report["files_skipped"]) == (2, 1)
    assert (report["partitions"], report["replaced"]) == ({"0": 2, "1": 0, "2": 1}, {"0": 2, "1": 1})
    assert is_clean(lab)
    again = lab.load("in/*.csv", table, task_id="third", **REPLACING)
    assert (again["files_listed"], again["files_skipped"]) == (0, 3)
    assert files(lab, table) == after
    put(lab, "in/a.csv", 1, 2, 11)  # the first version is back
    lab.load("in/*.csv", table, task_id="fourth", **REPLACING)
    assert files(lab, table) == {
        **{1: "a.csv", 2: "a.csv", 11: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 4: "c.csv", 19: ""}
    }


def test_chunk_by_chunk(lab: Lab) -> None:
    table = loaded(lab, max_files_per_chunk=1)
    put(lab, "in/a.csv", 5)
    put(lab, "in/b.csv", 6, 7)
    lab.load("in/*.csv", table, task_id="second", max_files_per_chunk=1, **REPLACING)
    assert files(lab, table) == {5: "a.csv", 6: "b.csv", 7: "b.csv", 19: ""}


def test_what_cannot_be_replaced(lab: Lab) -> None:
    table = lab.create("t", COLUMNS, BY_TENS)
    put(lab, "in/a.csv", 1)
    with pytest.raises(ConfigError, match=r"give provenance=\{'source_file': 'path', 'load_id': 'load'\}"):
        lab.load("in/*.csv", table, **{**REPLACING, "provenance": {"source_file": "path"}})
    silent = {**FILES, "provenance": None, "on_missing_columns": "default"}
    lab.load("in/*.csv", table, task_id="silent", **silent)
    put(lab, "in/a.csv", 2)
    with pytest.raises(LoadError, match="nothing says that source_file and load_id tell its rows from others"):
        lab.load("in/*.csv", table, **REPLACING)
    assert files(lab, table) == {1: ""}
    assert is_clean(lab)


STATEMENTS = {
    "before-the-commit": ("write_event_committing", 1),
    "in-the-middle": ("replace_partitions", 2),
    "before-the-ledger-knows": ("write_event_committed", 1),
}


@pytest.mark.every_case
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "when", [thorough("before-the-commit"), "in-the-middle", thorough("before-the-ledger-knows")]
)
def test_a_commit_that_is_killed_is_finished_by_a_retry(lab: Lab, when: str) -> None:
    table = loaded(lab)
    put(lab, "in/a.csv", 2, 22)
    dies = die_before(*STATEMENTS[when], signal.SIGKILL)
    with start_worker(lab, table, max_tries=1, task_id="second", before=dies, **REPLACING) as worker:
        assert worker.wait(WAIT_SECONDS) == -signal.SIGKILL
    lab.load("in/*.csv", table, task_id="second", try_number=2, max_tries=1, **REPLACING)
    assert files(lab, table) == {2: "a.csv", 22: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 19: ""}
    assert is_clean(lab)


@topologies("on-cluster", "old-database")
def test_on_replicas(replicated_lab: Lab) -> None:
    lab = replicated_lab
    table = loaded(lab)
    put(lab, "in/a.csv", 2, 22)
    lab.load("in/*.csv", table, task_id="second", **REPLACING)
    assert files(lab, table) == {2: "a.csv", 22: "a.csv", 3: "b.csv", 12: "b.csv", 31: "b.csv", 19: ""}
    assert lab.left_overs() == []
