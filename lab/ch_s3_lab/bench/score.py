"""Summarize measurements as medians, ratios and four closing figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import geometric_mean

from airflow_provider_ch_s3.trials.measurement import DEFAULTS, OURS, Measurement, median_of

FORMULA = "published formula"
BEST = "best of grid"
CEILING = "read ceiling"


@dataclass(frozen=True, kw_only=True)
class Result:
    """All measurements of a workload.

    :param grid: one or more measurements of each point of the grid.
    :param predicted: figure → our plan's prediction.
    """

    workload: str
    title: str
    rounds: Sequence[Measurement]
    grid: Sequence[Measurement] = ()
    predicted: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """Format name and title of the workload."""
        return f"{self.workload} {self.title}"

    def median(self, candidate: str, figure: str) -> float:
        """Compute the median over all rounds; infinite if the candidate failed in any round, NaN if not measured."""
        return median_of(self.rounds, candidate, figure)

    def ratio(self, candidate: str, figure: str) -> float:
        """Compute how many times better our plan is; 0 if our plan failed, infinite if the other candidate did."""
        ours = self.median(OURS, figure)
        return 0.0 if math.isinf(ours) else self.median(candidate, figure) / ours


@dataclass(frozen=True, kw_only=True)
class Score:
    """The closing figures.

    :param load_x: ratio of the server defaults' load seconds to our plan's, geometric mean over the workloads.
    :param settled_x: the same for settled seconds.
    :param worst: the smallest of all these ratios.
    :param grid: ratio of the settled seconds of the grid's best point to our plan's, geometric mean.
    :param grid_worst: the smallest of these ratios.
    """

    load_x: float
    settled_x: float
    worst: float
    grid: float
    grid_worst: float

    @property
    def is_good(self) -> bool:
        """Whether our plan is never slower than the defaults."""
        return min(self.load_x, self.settled_x, self.worst) >= 1.0

    def __str__(self) -> str:
        return (
            f"bench: load_x={self.load_x:.2f} settled_x={self.settled_x:.2f} worst={self.worst:.2f}"
            f" grid={self.grid:.2f}"
        )


def score_results(results: Sequence[Result]) -> Score:
    """Compute the closing figures; a workload that the defaults cannot load is left out of the means."""
    load = [result.ratio(DEFAULTS, "load_seconds") for result in results]
    settled = [result.ratio(DEFAULTS, "settled_seconds") for result in results]
    grid = [result.ratio(BEST, "settled_seconds") for result in results]
    return Score(
        load_x=_mean(load),
        settled_x=_mean(settled),
        worst=min((*load, *settled)),
        grid=_mean(grid),
        grid_worst=min((ratio for ratio in grid if not math.isnan(ratio)), default=math.nan),
    )


def format_figure(value: float, *, digits: int = 2) -> str:
    """Format a median or a ratio for people."""
    if math.isnan(value):
        return ""
    return "failed" if math.isinf(value) else f"{value:.{digits}f}"


def best_of_grid(grid: Iterable[Measurement]) -> Measurement | None:
    """Return the point with the fewest settled seconds; None if no point could be loaded."""
    return min((point for point in grid if not point.error), key=attrgetter("settled_seconds"), default=None)


def _mean(ratios: Iterable[float]) -> float:
    known = [ratio for ratio in ratios if math.isfinite(ratio)]
    if not known:
        return math.nan
    return 0.0 if 0.0 in known else geometric_mean(known)
