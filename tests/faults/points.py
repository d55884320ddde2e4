"""The named points of a load, from the trace of a load without faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.harness import Harness
from tests.faults.oracle import FAILED_CHECK
from tests.faults.plans import Kind, Plan, Points, Way
from tests.faults.scene import read_lines

# points of polls: how many there are depends on timing
FEW = 3
# as does whether the owner of the lock writes a heartbeat
BY_THE_CLOCK = "write_event_alive"


@dataclass(frozen=True, kw_only=True)
class Traces:
    """The points of loads without faults, each of which runs when it is first asked for."""

    harness: Harness
    _known: dict[Way, Points] = field(default_factory=dict)

    def of(self, ways: Iterable[Way]) -> Mapping[Way, Points]:
        """Load once in each way; returns the points that each load passed.

        :raises AssertionError: if one of these loads does not end as it should.
        """
        plans = [
            Plan(name=f"trace_{mode}_{'deferred' if is_deferred else 'worker'}", mode=mode, is_deferred=is_deferred)
            for mode, is_deferred in sorted({*ways} - {*self._known})
        ]
        for outcome in self.harness.run_all(plans, on_outcome=lambda _: None):
            ends = "failed_clean" if outcome.plan.mode == FAILED_CHECK else "committed"
            assert outcome.state == ends, str(outcome)
        for plan in plans:
            trace = self.harness.run_file(plan).with_suffix(".trace")
            self._known[plan.mode, plan.is_deferred] = read_points(trace)
        return self._known


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
