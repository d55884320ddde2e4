"""The report on a series of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.faults.judge import Outcome

GOOD = ("committed", "failed_clean", "unfinished", "unknown")
BAD = ("wrong", "stuck", "broken")


def format_report(outcomes: Sequence[Outcome]) -> str:
    """Format the bad runs, a table of outcomes by kind of fault, and the verdict in the last line."""
    lines = [f"{outcome.state}: {outcome}" for outcome in outcomes if outcome.state not in GOOD]
    columns = ("runs", *GOOD, *BAD, "not_reached")
    lines.append(f"{'fault':16}" + "".join(f"{column:>13}" for column in columns))
    for kind in sorted({outcome.plan.kind.value for outcome in outcomes}):
        same = [outcome for outcome in outcomes if outcome.plan.kind.value == kind]
        counts = Counter(outcome.state for outcome in same)
        counts["runs"] = len(same)
        counts["not_reached"] = sum(bool(outcome.plan.point) and not outcome.reached for outcome in same)
        lines.append(f"{kind:16}" + "".join(f"{counts[column]:13}" for column in columns))
    lines.append(f"faults: {'OK' if is_good(outcomes) else 'FAILED'} {_numbers(outcomes)}")
    return "\n".join(lines)


def is_good(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome.state in GOOD for outcome in outcomes)


def _numbers(outcomes: Sequence[Outcome]) -> str:
    states = Counter(outcome.state for outcome in outcomes)
    numbers = {
        "runs": len(outcomes),
        "kinds": len({outcome.plan.kind for outcome in outcomes}),
        "committed": states["committed"],
        "failed_clean": states["failed_clean"],
        **{state: states[state] for state in ("unfinished", "unknown", *BAD) if states[state]},
        "lost": sum(outcome.lost for outcome in outcomes),
        "doubled": sum(outcome.doubled for outcome in outcomes),
        "leftovers": sum(outcome.leftovers for outcome in outcomes),
    }
    return " ".join(f"{name}={number}" for name, number in numbers.items())
