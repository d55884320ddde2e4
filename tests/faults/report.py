"""What a series of runs came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.faults.harness import Outcome


def format_report(outcomes: Sequence[Outcome]) -> str:
    """The wrong runs, runs and ends by kind of fault, and the verdict in the last line."""
    kinds = Counter(outcome.plan.kind.value for outcome in outcomes)
    lines = [f"wrong: {outcome}" for outcome in outcomes if outcome.state == "wrong"]
    lines.append(f"{'fault':16} {'runs':>5} {'committed':>10} {'failed_clean':>13} {'wrong':>6} {'not reached':>12}")
    for kind, runs in sorted(kinds.items()):
        same = [outcome for outcome in outcomes if outcome.plan.kind.value == kind]
        states = Counter(outcome.state for outcome in same)
        not_reached = sum(bool(outcome.plan.point) and not outcome.reached for outcome in same)
        lines.append(
            f"{kind:16} {runs:5} {states['committed']:10} {states['failed_clean']:13} {states['wrong']:6}"
            f" {not_reached:12}"
        )
    lines.append(f"faults: {'OK' if is_good(outcomes) else 'FAILED'} {_numbers(outcomes)}")
    return "\n".join(lines)


def is_good(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome.state in ("committed", "failed_clean", "unfinished") for outcome in outcomes)


def _numbers(outcomes: Sequence[Outcome]) -> str:
    states = Counter(outcome.state for outcome in outcomes)
    numbers = {
        "runs": len(outcomes),
        "committed": states["committed"],
        "failed_clean": states["failed_clean"],
        "unfinished": states["unfinished"],
        "wrong": states["wrong"],
        "lost": sum(outcome.lost for outcome in outcomes),
        "doubled": sum(outcome.doubled for outcome in outcomes),
        "leftovers": sum(outcome.leftovers for outcome in outcomes),
    }
    usual = {name: number for name, number in numbers.items() if number or name not in ("unfinished", "wrong")}
    return " ".join(f"{name}={number}" for name, number in usual.items())
