"""The figures of a measured load, and medians over several loads. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import median
from typing import Any

from airflow_provider_ch_s3.common.text import count_of, format_bytes

DEFAULTS = "server defaults"
OURS = "our plan"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The figures of a load.

    :param settings: the plan's settings, sent with the INSERT.
    :param load_seconds: duration of the INSERT, by the server's clock.
    :param settled_seconds: from the start of the INSERT to the end of the last merge.
    :param peak_memory_bytes: peak memory of the INSERT, on the node with the greatest peak.
    :param volume_bytes: size of the rows in the server's memory.
    :param parts: (seconds since the start, active parts on all nodes) at each change.
    :param error: error of a failed load, whose figures are 0; '' otherwise.
    """

    candidate: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    load_seconds: float = 0.0
    settled_seconds: float = 0.0
    peak_memory_bytes: int = 0
    initial_parts: int = 0
    requests: int = 0
    rows: int = 0
    volume_bytes: int = 0
    parts: Sequence[tuple[float, int]] = ()
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"{self.candidate}: failed: {self.error}"
        return (
            f"{self.candidate}: loaded in {self.load_seconds:.2f} s, settled in {self.settled_seconds:.2f} s,"
            f" {count_of(self.initial_parts, 'initial part')}, peak memory {format_bytes(self.peak_memory_bytes)}"
        )


def median_of(measurements: Iterable[Measurement], candidate: str, figure: str) -> float:
    """Compute the median of a candidate's figure: infinite after a failed load, NaN without a measured load."""
    measured = [measurement for measurement in measurements if measurement.candidate == candidate]
    if not measured:
        return math.nan
    return math.inf if any(m.error for m in measured) else median(map(attrgetter(figure), measured))


def rotate(names: Sequence[str], number: int) -> Sequence[str]:
    """Rotate the names by a round's number, so that the after-effects of a load hit all candidates equally."""
    start = number % len(names)
    return [*names[start:], *names[:start]]
