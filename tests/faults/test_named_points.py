"""The worker is killed at every named point of the protocol, in every mode, deferred and not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.faults.harness import Harness, running_harness
from tests.faults.oracle import MODES
from tests.faults.plans import Points
from tests.faults.points import WAYS, boundaries, kill_plans, trace_loads

pytestmark = [pytest.mark.sandbox, pytest.mark.faults, pytest.mark.timeout(900)]

# Written by hand: a step of the protocol that the trace does not show would be a step that nobody kills.
STEPS = {
    "create_ledger",
    "create_ledger_files",
    "create_lock",
    "write_event_locked",
    "write_files",
    "write_event_planned",
    "create_staging",
    "drop_lock",
    "insert_load",
    "rename_staging",
    "write_event_committing",
    "write_event_committed",
    "drop_staging",
}
COMMIT_STEPS = {
    "append": {"move_partition"},
    "replace_partitions": {"replace_partition"},
    "replace_where": {"attach_partition", "copy_survivors", "replace_partition"},
    "replace_table": {"replace_partition"},
}
TOUCHED_PARTITIONS = 3
NODES = 2


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    """Two nodes, and tasks in forked processes: the real scheduler would take five times as long."""
    with running_harness(nodes=NODES, has_airflow=False) as harness:
        yield harness


@pytest.fixture(scope="module")
def points(harness: Harness) -> dict[tuple[str, bool], Points]:
    return trace_loads(harness)


def steps(points: Sequence[str]) -> set[str]:
    return {point.split(":")[2].partition("#")[0] for point in points}


@pytest.mark.parametrize("is_deferred", [pytest.param(way, id="deferred" if way else "worker") for way in WAYS])
@pytest.mark.parametrize("mode", MODES)
def test_a_worker_killed_at_any_point(
    harness: Harness, points: dict[tuple[str, bool], Points], mode: str, is_deferred: bool
) -> None:
    writes = points[mode, is_deferred].writes
    assert steps(writes) >= STEPS | COMMIT_STEPS[mode]
    last = "move_partition" if mode == "append" else "replace_partition"
    assert sum(f":after:{last}#" in point for point in writes) >= TOUCHED_PARTITIONS * NODES
    outcomes = harness.run_all(kill_plans(mode, is_deferred, boundaries(writes)), on_outcome=lambda _: None)
    wrong = [str(outcome) for outcome in outcomes if outcome.state != "committed" or not outcome.reached]
    assert wrong == []
