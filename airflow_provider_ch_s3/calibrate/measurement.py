"""What one load took, and what several of them say together. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import median
from typing import Any

from airflow_provider_ch_s3.units import format_bytes

DEFAULTS = "server defaults"
OURS = "our plan"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one load took.

    :param settings: what it was sent with, beside what every load is.
    :param load_seconds: of the INSERT, by the server's clock.
    :param settled_seconds: from its beginning to the end of the last merge.
    :param peak_memory_bytes: of the INSERT, on the node that took most.
    :param volume_bytes: the rows in the server's memory.
    :param parts: (seconds from the beginning, active parts on all nodes) at each change.
    :param error: of a load that failed; the figures are 0 then.
    """

    candidate: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    load_seconds: float = 0.0
    settled_seconds: float = 0.0
    peak_memory_bytes: int = 0
    initial_parts: int = 0
    s3_requests: int = 0
    rows: int = 0
    volume_bytes: int = 0
    parts: Sequence[tuple[float, int]] = ()
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"{self.candidate}: failed: {self.error}"
        return (
            f"{self.candidate}: loaded {self.load_seconds:.2f} s, settled {self.settled_seconds:.2f} s,"
            f" {self.initial_parts} parts, {format_bytes(self.peak_memory_bytes)}"
        )


def median_of(measurements: Iterable[Measurement], candidate: str, figure: str) -> float:
    """Median of one candidate's figure; infinite if it failed once, NaN if it was not tried."""
    mine = [measurement for measurement in measurements if measurement.candidate == candidate]
    if not mine:
        return math.nan
    return math.inf if any(m.error for m in mine) else median(map(attrgetter(figure), mine))


def rotate(names: Sequence[str], number: int) -> Sequence[str]:
    """Another one begins in each round: whatever lingers of a load meets all candidates alike."""
    start = number % len(names)
    return [*names[start:], *names[:start]]
