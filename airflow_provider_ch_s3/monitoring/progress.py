"""The progress of running queries, read from all nodes; of a load, in one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_count, format_estimate, with_facts
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.sql import load_queries

LOGGED_SHARES = 10
FIRST_SECONDS = 5.0
GROWTH = 4


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a running load, over all nodes.

    :param nodes_at_work: nodes still working, of the ``nodes`` with a part in the query so far.
    :param done_ratio: of this query, 0 to 1; None if the amount of work is unknown.
    :param chunk: the part of the load in this query.
    """

    rows: int
    read_bytes: int
    peak_memory_bytes: int
    elapsed_seconds: float
    nodes: int
    nodes_at_work: int
    done_ratio: float | None
    chunk: Chunk = field(default_factory=Chunk)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.elapsed_seconds if self.elapsed_seconds > 0 else 0.0

    @property
    def left_seconds(self) -> float | None:
        """Time until the end of the whole load, at the mean speed so far."""
        if not self.total_ratio:
            return None
        return self.total_seconds * (1 - self.total_ratio) / self.total_ratio

    @property
    def total_seconds(self) -> float:
        """How long the whole load has been running."""
        return self.chunk.seconds_before + self.elapsed_seconds

    @property
    def total_ratio(self) -> float | None:
        """How much of the whole load is done, 0 to 1; None if the amount of work is unknown."""
        return None if self.done_ratio is None else self.chunk.done_ratio(self.done_ratio)

    def __str__(self) -> str:
        parts = [
            "" if self.chunk.is_only else f"chunk {self.chunk.place}",
            f"{self.total_ratio:.0%}" if self.total_ratio is not None else "",
            count_of(self._all_rows, "row"),
            f"{count_of(self.rows_per_second, 'row')}/s",
            f"{format_bytes(self.read_bytes)} read",
            f"{format_bytes(self.peak_memory_bytes)} peak memory",
            f"{self._workers} at work",
            f"{format_estimate(self.left_seconds)} left" if self.left_seconds is not None else "",
        ]
        return ", ".join(part for part in parts if part)

    @property
    def line(self) -> str:
        """A line for the log, with the facts for the tab "Load report"."""
        done = None if self.total_ratio is None else round(self.total_ratio, 3)
        return with_facts(str(self), {"rows": self._all_rows, "done": done, "seconds": round(self.total_seconds, 1)})

    @property
    def _all_rows(self) -> int:
        """Rows of all chunks so far."""
        return self.chunk.rows_before + self.rows

    @property
    def _workers(self) -> str:
        nodes = count_of(self.nodes, "node")
        return nodes if self.nodes_at_work == self.nodes else f"{format_count(self.nodes_at_work)} of {nodes}"


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What a node's part of the query had done when last seen."""

    is_initial: bool
    rows: int = 0
    read_bytes: int = 0
    peak_memory_bytes: int = 0

    def grown(self, row: Mapping[str, Any]) -> _Part:
        return _Part(
            is_initial=self.is_initial,
            rows=max(self.rows, row["read_rows"]),
            read_bytes=max(self.read_bytes, row["store_bytes"]),
            peak_memory_bytes=max(self.peak_memory_bytes, row["peak_memory_bytes"]),
        )


class ProgressPace:
    """Decides when to log the progress of a query.

    First at once; then after each tenth of the load, and whenever the load has been running for four times as long as
    at the line before: 14 lines in three hours.
    """

    def __init__(self) -> None:
        self._share = -1
        self._next_seconds = 0.0

    def is_due(self, progress: Progress) -> bool:
        """Whether to log the progress now."""
        share = int(LOGGED_SHARES * (progress.total_ratio or 0.0))
        seconds = progress.total_seconds
        if share <= self._share and seconds < self._next_seconds:
            return False
        self._share, self._next_seconds = max(self._share, share), max(FIRST_SECONDS, GROWTH * seconds)
        return True


class ProgressMeter:
    """Measures one query from poll to poll.

    A node that has finished its part no longer shows the part in ``system.processes``, and logs it only seconds
    later. So a part seen once stays in the sum, and no figure ever falls.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], _Part] = {}
        self._log_comment = ""
        self._rows = 0

    def measure(self, running: Sequence[Mapping[str, Any]], ended: Sequence[Mapping[str, Any]] = ()) -> Progress:
        """Add up what all nodes have done so far.

        :param running: the query's rows of ``system.processes``.
        :param ended: the query's rows of ``system.query_log``, for ended and logged parts.
        """
        for row in (*ended, *running):
            key = (row["node"], row["query_id"])
            self._parts[key] = self._parts.get(key, _Part(is_initial=bool(row["is_initial"]))).grown(row)
            self._log_comment = self._log_comment or row["log_comment"]
        # A query on a single node has no further part.
        workers = {key: part for key, part in self._parts.items() if not part.is_initial} or self._parts
        at_work = {(row["node"], row["query_id"]) for row in running} & workers.keys()
        # The initiator counts the rows of all nodes, including finished nodes, but only its own opened files.
        rows = [part.rows for part in self._parts.values() if part.is_initial]
        self._rows = max(self._rows, max(rows) if rows else sum(part.rows for part in workers.values()))
        read_bytes = sum(part.read_bytes for part in workers.values())
        memory_bytes: Counter[str] = Counter()
        for (node, _), part in self._parts.items():
            memory_bytes[node] += part.peak_memory_bytes
        expected = expected_work(self._log_comment)
        return Progress(
            rows=self._rows,
            read_bytes=read_bytes,
            peak_memory_bytes=max(memory_bytes.values(), default=0),
            elapsed_seconds=max((row["elapsed_seconds"] for row in running), default=0.0),
            nodes=len({node for node, _ in workers}),
            nodes_at_work=len({node for node, _ in at_work}),
            done_ratio=_done_ratio(expected, self._rows, read_bytes),
            chunk=decode(Chunk, expected.get("chunk", {})),
        )


def _done_ratio(expected: Mapping[str, Any], rows: int, read_bytes: int) -> float | None:
    done, work = (rows, expected["rows"]) if expected.get("rows") else (read_bytes, expected.get("bytes", 0))
    return min(done / int(work), 1.0) if work else None


def expected_work(log_comment: str) -> dict[str, Any]:
    """What was planned, from ``log_comment``: ``files``, ``bytes``, ``rows``, ``chunk``, ``is_read_by_one``."""
    try:
        comment = json.loads(log_comment)
    except ValueError:
        return {}
    kinds = {"files": int, "bytes": int, "rows": int, "chunk": dict, "is_read_by_one": bool}
    return {name: comment[name] for name, kind in kinds.items() if isinstance(comment.get(name), kind)}


Parts = Sequence[Mapping[str, Any]]


def read_running(client: ClickHouseClient, query_ids: Sequence[str], cluster: str | None) -> dict[str, Parts]:
    """For each query, the parts running on any node; empty if the query is no longer running.

    :raises ServerError: if a node cannot be queried: then nothing is known.
    """
    parts: dict[str, list[Mapping[str, Any]]] = {query_id: [] for query_id in query_ids}
    for batch in batches(query_ids):
        for row in client.query(load_queries.render_running_parts(batch, cluster)):
            parts[row["initial_query_id"]].append(row)
    return dict(parts)
