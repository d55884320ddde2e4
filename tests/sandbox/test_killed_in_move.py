"""A node killed inside a MOVE, which puts the parts into the target first and takes them from the source after."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_provider_ch_s3.errors import ChS3Error, UnknownStateError
from tests.sandbox.conftest import Lab, all_answer, bag, kill_node, wait_until
from tests.sandbox.few import put_numbers

pytestmark = pytest.mark.sandbox

NODES = 2
PARTS_PER_NODE = 200
ROWS = [{"n": n} for n in range(NODES * PARTS_PER_NODE * 10)]
# blocks of ten rows, each a part; no merges, in the staging table neither
MANY_PARTS = {"max_threads": 1, "max_insert_threads": 1, "max_block_size": 10, "min_insert_block_size_rows": 10}
NO_MERGES = "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"


class KillerInMove:
    """Kills the first node that has so many new parts in its folder of a table."""

    def __init__(self, lab: Lab, table: str, after_parts: int) -> None:
        self._lab = lab
        self._folders = [data_folder(lab, table, node) for node in range(NODES)]
        self._old = [part_names(folder) for folder in self._folders]
        self._after_parts = after_parts
        self._is_over = threading.Event()
        self.has_killed = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.is_set():
            for node, folder in enumerate(self._folders):
                if len(part_names(folder) - self._old[node]) >= self._after_parts:
                    kill_node(self._lab.sandbox, node)
                    self.has_killed = True
                    return

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def data_folder(lab: Lab, table: str, node: int) -> Path:
    database, _, name = table.partition(".")
    (row,) = lab.query(
        f"SELECT data_paths FROM system.tables WHERE database = '{database}' AND name = '{name}'", node=node
    )
    return Path(row["data_paths"][0])


def part_names(folder: Path) -> set[str]:
    """The parts that a restarted node would find; not those that are being made."""
    return {name for name in os.listdir(folder) if name[0].isalnum() and name.count("_") == 3}


@pytest.fixture
def table(fragile_lab: Lab) -> str:
    for node in range(NODES):
        put_numbers(fragile_lab, f"in/{node}.csv", ROWS[node::NODES])
    return fragile_lab.create("t", "n UInt32", f"MergeTree ORDER BY n SETTINGS {NO_MERGES}")


@pytest.mark.parametrize("after_parts", [1, PARTS_PER_NODE], ids=["first-part", "half-way"])
def test_each_row_arrives_once_or_the_load_says_that_it_does_not_know(
    fragile_lab: Lab, table: str, after_parts: int
) -> None:
    lab = fragile_lab
    killer = KillerInMove(lab, table, after_parts)
    try:
        with suppress(ChS3Error):
            lab.load("in/*.csv", table, max_tries=2, retries=2, settings=MANY_PARTS)
    finally:
        killer.stop()
    assert killer.has_killed
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")
    error = None
    try:
        lab.load("in/*.csv", table, try_number=2, max_tries=2, retries=2, settings=MANY_PARTS)
    except UnknownStateError as unknown:
        error = unknown
    if error is None:
        assert bag(lab.rows(table)) == bag(ROWS)
        assert lab.left_overs() == []
    else:
        assert table in str(error)
        assert max(bag(lab.rows(table)).values(), default=0) == 1
    # whatever became of it, others go on, and change nothing of it
    held = bag(lab.rows(table))
    put_numbers(lab, "other/a.csv", [{"n": 10**6}])
    lab.load("other/*.csv", table, task_id="other")
    assert bag(lab.rows(table)) == held + bag([{"n": 10**6}])
