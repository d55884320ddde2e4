"""The named points of a load, from the trace of a load without faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.faults.harness import Harness
from tests.faults.oracle import MODES
from tests.faults.plans import Kind, Plan, Points
from tests.faults.scene import read_lines

WAYS = (False, True)
# points of polls: how many there are depends on timing
FEW = 3
# as does whether the owner of the lock writes a heartbeat
BY_THE_CLOCK = "write_event_alive"


def trace_loads(harness: Harness) -> dict[tuple[str, bool], Points]:
    """Load once in each mode, deferred and not, without a fault; returns the points that each load passed.

    :raises AssertionError: if one of these loads fails.
    """
    plans = [
        Plan(name=f"trace_{mode}_{'deferred' if is_deferred else 'worker'}", mode=mode, is_deferred=is_deferred)
        for mode in MODES
        for is_deferred in WAYS
    ]
    for outcome in harness.run_all(plans, on_outcome=lambda _: None):
        assert outcome.state == "committed", str(outcome)
    return {
        (plan.mode, plan.is_deferred): read_points(harness.run_file(plan).with_suffix(".trace")) for plan in plans
    }


def read_points(trace: Path) -> Points:
    """Read the points of one load; of reads that are repeated until something happens, only the first few."""
    lines = [line for line in read_lines(trace) if not line["place"].startswith(f"{BY_THE_CLOCK}#")]
    return Points(
        all=[_name(line) for line in lines if not line["read"] or int(line["place"].rpartition("#")[2]) <= FEW],
        writes=[_name(line) for line in lines if not line["read"]],
    )


def _name(line: Mapping[str, Any]) -> str:
    return f"{line['phase']}:{line['when']}:{line['place']}"


def boundaries(points: Sequence[str], *, is_deferred: bool) -> list[str]:
    """Select one point for each state that the servers can be in.

    Between a statement that changes something and the next one there are only reads: a process that dies right
    after the first leaves the same state as one that dies right before the second. The end of the INSERT is
    different: the worker polls while it runs, and a deferred task's process has usually ended by then.
    """
    return [
        point
        for number, point in enumerate(points)
        if ":before:" in point
        or (":insert_load#" in point and not is_deferred)
        or (":insert_load#" not in point and _is_last_of_phase(points, number))
    ]


def _is_last_of_phase(points: Sequence[str], number: int) -> bool:
    following = points[number + 1 :]
    return not following or following[0].partition(":")[0] != points[number].partition(":")[0]


def kill_plans(mode: str, is_deferred: bool, points: Sequence[str]) -> list[Plan]:
    """Plan a run for each point, in which the worker dies there."""
    way = "deferred" if is_deferred else "worker"
    return [
        Plan(
            name=f"kill_{mode}_{way}_{number}", mode=mode, is_deferred=is_deferred, kind=Kind.KILL_WORKER, point=point
        )
        for number, point in enumerate(points)
    ]
