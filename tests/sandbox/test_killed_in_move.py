"""A node is killed inside a MOVE, which adds parts to the target first and then removes them from the source."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial

import pytest

from airflow_provider_ch_s3.errors import ChS3Error, UnknownStateError
from tests.marks import thorough
from tests.sandbox.conftest import Lab, bag, wait_until
from tests.sandbox.few import put_numbers
from tests.sandbox.move_killer import MoveKiller
from tests.sandbox.processes import all_answer, kill_node

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

NODES = 2
PARTS_PER_NODE = 200
ROWS = [{"n": n} for n in range(NODES * PARTS_PER_NODE * 10)]
# no merges, not even in the staging table
NO_MERGES = "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("partitions", "after_parts", "policy"),
    [
        thorough(1, 1, "default", id="first-part"),
        thorough(1, PARTS_PER_NODE, "default", id="half-way"),
        pytest.param(4, PARTS_PER_NODE * 5 // 8, "default", id="third-partition"),
        thorough(4, PARTS_PER_NODE * 5 // 8, "s3", id="on-an-s3-disk"),
    ],
)
def test_each_row_arrives_once_or_the_load_says_that_it_does_not_know(
    fragile_lab: Lab, partitions: int, after_parts: int, policy: str
) -> None:
    lab = fragile_lab
    for node in range(NODES):
        put_numbers(lab, f"in/{node}.csv", ROWS[node::NODES])
    key = f"intDiv(n, {len(ROWS) // partitions})"
    settings_of_table = f"{NO_MERGES}, storage_policy = '{policy}'"
    table = lab.create("t", "n UInt32", f"MergeTree PARTITION BY {key} ORDER BY n SETTINGS {settings_of_table}")
    # blocks of ten rows, each of which becomes a part
    settings = {"max_threads": 1, "max_insert_threads": 1, "max_block_size": 10, "min_insert_block_size_rows": 10}
    killer = MoveKiller(lab.sandbox, table, partial(kill_node, lab.sandbox), after_parts=after_parts)
    try:
        with suppress(ChS3Error):
            lab.load("in/*.csv", table, max_tries=2, retries=2, settings=settings)
    finally:
        killer.stop()
    assert killer.has_killed
    wait_until(lambda: all_answer(lab.sandbox), "the nodes")
    error = None
    try:
        lab.load("in/*.csv", table, try_number=2, max_tries=2, retries=2, settings=settings)
    except UnknownStateError as unknown:
        error = unknown
    if error is None:
        assert bag(lab.rows(table)) == bag(ROWS)
        assert lab.left_overs() == []
    else:
        assert table in str(error)
        assert max(bag(lab.rows(table)).values(), default=0) == 1
        if staged := re.search(r"or give the rest of this commit up: drop (\S+) on every node", str(error)):
            lab.everywhere(f"DROP TABLE {staged[1]} SYNC")
    # whatever the outcome, other loads continue, and do not change it
    held = bag(lab.rows(table))
    put_numbers(lab, "other/a.csv", [{"n": 10**6}])
    lab.load("other/*.csv", table, task_id="other")
    assert bag(lab.rows(table)) == held + bag([{"n": 10**6}])
