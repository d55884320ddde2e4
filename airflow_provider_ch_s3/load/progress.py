"""How far a running load is, in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ch_s3.units import format_bytes, format_count, format_seconds


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A running load, over all nodes.

    :param done_ratio: 0 to 1; None where nobody knows how much there is to do.
    """

    rows: int
    read_bytes: int
    peak_memory_bytes: int
    elapsed_seconds: float
    nodes: int
    done_ratio: float | None

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.elapsed_seconds if self.elapsed_seconds > 0 else 0.0

    @property
    def left_seconds(self) -> float | None:
        """Time to the end at the mean speed so far."""
        if not self.done_ratio:
            return None
        return self.elapsed_seconds * (1 - self.done_ratio) / self.done_ratio

    def __str__(self) -> str:
        parts = [
            f"{self.done_ratio:.0%}" if self.done_ratio is not None else "",
            f"{format_count(self.rows)} rows",
            f"{format_count(self.rows_per_second)} rows/s",
            f"{format_bytes(self.read_bytes)} read",
            f"{format_bytes(self.peak_memory_bytes)} peak memory",
            f"{self.nodes} {'node' if self.nodes == 1 else 'nodes'} at work",
            f"{format_seconds(self.left_seconds)} left" if self.left_seconds is not None else "",
        ]
        return ", ".join(part for part in parts if part)


def measure_progress(running: Sequence[Mapping[str, Any]]) -> Progress:
    """Sum up the rows of ``system.processes`` that belong to one load."""
    workers = [row for row in running if not row["is_initial"]] or list(running)
    rows = sum(row["read_rows"] for row in workers)
    read_bytes = sum(row["s3_bytes"] for row in workers)
    expected = expected_work(running[0]["log_comment"] if running else "")
    done_ratio = None
    if expected.get("rows"):
        done_ratio = rows / expected["rows"]
    elif expected.get("bytes"):
        done_ratio = read_bytes / expected["bytes"]
    return Progress(
        rows=rows,
        read_bytes=read_bytes,
        peak_memory_bytes=max((row["peak_memory_bytes"] for row in workers), default=0),
        elapsed_seconds=max((row["elapsed_seconds"] for row in running), default=0.0),
        nodes=len({row["node"] for row in workers}),
        done_ratio=min(done_ratio, 1.0) if done_ratio is not None else None,
    )


def expected_work(log_comment: str) -> dict[str, int]:
    """What the listing found, as the load wrote it into its ``log_comment``: ``files``, ``bytes``, ``rows``."""
    try:
        comment = json.loads(log_comment)
    except ValueError:
        return {}
    return {name: comment[name] for name in ("files", "bytes", "rows") if isinstance(comment.get(name), int)}
