"""The worker is killed at every named step of the protocol, which the modes, deferred and not, share among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.faults.harness import Harness
from tests.faults.oracle import CHUNKS, MERGE, REPLACED, UNDO
from tests.faults.points import Traces, boundaries, kill_plans

pytestmark = [pytest.mark.sandbox, pytest.mark.faults, pytest.mark.timeout(1800)]

# Written by hand: at a step that is missing from the trace, no worker would be killed.
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
ALREADY_DONE = {
    REPLACED: {"create_ledger", "create_ledger_files"},
    UNDO: {"create_ledger", "create_ledger_files", "write_files", "insert_load"},
}
"""Of the load before, or without files."""
COMMIT_STEPS = {
    "append": {"move_partitions"},
    CHUNKS: {"move_partitions"},
    "replace_partitions": {"replace_partitions"},
    "replace_where": {"copy_partitions", "attach_partitions", "delete_rows", "await_deletion", "replace_partitions"},
    "replace_table": {"replace_partitions"},
    MERGE: {
        *("create_changes", "find_changes", "copy_changes", "copy_partitions", "delete_dropped", "await_deletion"),
        *("insert_winners", "replace_partitions"),
    },
    REPLACED: {"copy_partitions", "attach_partitions", "delete_rows", "await_deletion", "replace_partitions"},
    UNDO: {"copy_partitions", "delete_rows", "await_deletion", "replace_partitions", "write_event_undone"},
}


def steps(points: Sequence[str]) -> set[str]:
    return {step(point) for point in points}


def step(point: str) -> str:
    return point.split(":")[2].partition("#")[0]


@pytest.mark.thorough
def test_a_worker_killed_at_each_named_point(forking: Harness, traces: Traces) -> None:
    """Kill at each step in two of the sixteen kinds of load; ``make faults-points`` kills at every point of each."""
    by_step: dict[str, list[tuple[str, bool, str]]] = {}
    ways = [(mode, is_deferred) for mode in COMMIT_STEPS for is_deferred in (False, True)]
    points = traces.of(ways)
    for mode, is_deferred in ways:
        found = points[mode, is_deferred]
        assert steps(found.writes) >= STEPS - ALREADY_DONE.get(mode, set()) | COMMIT_STEPS[mode]
        last = "move_partitions" if mode in ("append", CHUNKS) else "replace_partitions"
        assert sum(f":after:{last}#" in point for point in found.writes) >= forking.nodes
        for point in boundaries(found.writes, is_deferred=is_deferred):
            by_step.setdefault(step(point), []).append((mode, is_deferred, point))
    chosen = {
        same[(place * 7 + half * len(same) // 2) % len(same)]
        for place, same in enumerate(by_step.values())
        for half in (0, 1)
    }
    plans = [
        replace(plan, name=f"{plan.name}_{number}")
        for number, (mode, is_deferred, point) in enumerate(sorted(chosen))
        for plan in kill_plans(mode, is_deferred, [point])
    ]
    outcomes = forking.run_all(plans, on_outcome=lambda _: None)
    wrong = [str(outcome) for outcome in outcomes if outcome.state != "committed" or not outcome.reached]
    assert wrong == []
