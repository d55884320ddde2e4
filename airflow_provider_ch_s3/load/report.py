"""The report of a load, from the cluster's own logs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ch_s3.codec import decode
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.query.progress import expected_work
from airflow_provider_ch_s3.query.state import QueryStatus
from airflow_provider_ch_s3.tuning import LoadPlan, Prediction
from airflow_provider_ch_s3.units import count_of, format_bytes, format_seconds

# A table partitioned by day may have thousands, all of which a load may replace.
MAX_NAMED_PARTITIONS = 10


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """One node's share of a load.

    :param files: files that it opened.
    :param rows_written: rows that it wrote.
    :param peak_memory_bytes: its peak memory in the INSERT.
    :param initial_parts: parts that it wrote, before merges.
    """

    files: int
    rows_written: int
    peak_memory_bytes: int
    initial_parts: int


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What a load did; passed through XCom as a dict of plain values.

    :param query_id: id of the INSERT in ``system.query_log``; '' if there was nothing new to load.
    :param table: the table, as the operator names it.
    :param files_listed: files that the load was asked to read; None if the INSERT's ``log_comment`` is lost.
    :param files_read: files that were opened: more than listed if nodes share a file, or if file names contain
        characters that make the servers open files with similar names, too.
    :param rows_listed: rows in the files, by their footers; None if the files have none (only Parquet files do), if
        files with similar names are opened, too, or if the ``log_comment`` is lost.
    :param rows_read: rows as the servers count them; of Parquet files only those that ``where`` lets through.
    :param rows_written: rows that the INSERT wrote, in materialized views as well; fewer than ``rows_read`` where
        ``where`` leaves some out.
    :param size_bytes: stored size of the files; None if the ``log_comment`` is lost.
    :param read_bytes: bytes that the servers read from S3: fewer than ``size_bytes`` where columns are left out.
    :param s3_requests: requests to S3, on all nodes.
    :param seconds: duration of the INSERT alone, without merges and commit.
    :param ended: Unix time at which the INSERT ended, by the server's clock.
    :param rows_per_second: ``rows_written`` per second of the INSERT.
    :param peak_memory_bytes: peak memory of the INSERT on the node that took most.
    :param initial_parts: parts that the INSERT wrote before merges, on all nodes, in materialized views as well; 0 if
        the table's engine has no parts.
    :param attached: whether an earlier try submitted the INSERT, and this one took over its result.
    :param nodes: node (``host:port``) → its share of the load, a :class:`NodeReport`.
    :param settings: setting → ``value``, ``origin`` (``operator``, ``connection``, ``computed``, ``server default``;
        ``server log`` where no plan is known) and ``reason``.
    :param left_out_settings: computed setting that the server does not accept → the reason.
    :param data_format: format of the files; '' where no plan is known.
    :param volume_bytes: size of the written rows in the server's memory; 0 if the table's engine has no parts.
    :param predicted: what the plan expected, a :class:`Prediction`; empty where no plan is known.
    :param load_mode: mode of the load, as the operator names it; ``append`` without staging.
    :param files_skipped: files that the table already held, in this version or another; not in ``files_listed``.
    :param files_too_young: files that were left out because they are younger than ``min_file_age``; not in
        ``files_listed``. The next load of the same source takes them.
    :param checks: what was compared before the commit, one sentence for each check; empty without staging.
    :param partitions: partition id → staged rows; empty if there was nothing new to load, None without staging.
    :param replaced: partition id → rows that the commit removed from the table; without partitions that had none.
    :param commit_seconds: duration of the commit; 0 without staging.
    """

    query_id: str
    table: str
    files_listed: int | None
    files_read: int
    rows_listed: int | None
    rows_read: int
    rows_written: int
    size_bytes: int | None
    read_bytes: int
    s3_requests: int
    seconds: float
    ended: float
    rows_per_second: float
    peak_memory_bytes: int
    initial_parts: int
    attached: bool
    nodes: Mapping[str, NodeReport]
    settings: Mapping[str, Mapping[str, Any]]
    left_out_settings: Mapping[str, str] = field(default_factory=dict)
    data_format: str = ""
    volume_bytes: int = 0
    predicted: Mapping[str, Any] = field(default_factory=dict)
    load_mode: str = "append"
    files_skipped: int = 0
    files_too_young: int = 0
    checks: Sequence[str] = ()
    partitions: Mapping[str, int] | None = None
    replaced: Mapping[str, int] = field(default_factory=dict)
    commit_seconds: float = 0.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LoadReport:
        """Read what :meth:`as_dict` of any release returned."""
        nodes = {name: decode(NodeReport, node, **_BLANK_NODE) for name, node in values.get("nodes", {}).items()}
        return decode(cls, {**values, "nodes": nodes}, **_BLANK)

    @classmethod
    def of_commit(cls, detail: Mapping[str, Any]) -> LoadReport:
        """Build the report of a load from the ledger's event of its commit."""
        after = {name: detail[name] for name in ("replaced", "commit_seconds") if name in detail}
        return cls.from_dict({**detail.get("report", {}), **after})

    @classmethod
    def nothing_new(cls, table: str, *, files_skipped: int = 0, files_too_young: int = 0) -> LoadReport:
        """Build the report of a load without files, or whose files were all loaded before or are too young."""
        reasons = []
        if files_skipped:
            reasons.append(
                f"the table already holds {count_of(files_skipped, 'listed file')}, in this version or another"
            )
        if files_too_young:
            reasons.append(f"{count_of(files_too_young, 'file')} younger than min_file_age")
        return cls(
            query_id="",
            table=table,
            files_listed=0,
            files_read=0,
            rows_listed=0,
            rows_read=0,
            rows_written=0,
            size_bytes=0,
            read_bytes=0,
            s3_requests=0,
            seconds=0.0,
            ended=time.time(),
            rows_per_second=0.0,
            peak_memory_bytes=0,
            initial_parts=0,
            attached=False,
            nodes={},
            settings={},
            files_skipped=files_skipped,
            files_too_young=files_too_young,
            checks=tuple(reasons) or ("no file matches the source",),
            partitions={},
        )

    @property
    def is_nothing_new(self) -> bool:
        """Whether there was nothing to load, so that the table was not changed."""
        return not self.query_id

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, for XCom."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        if self.is_nothing_new:
            return f"nothing new for {self.table}: {'; '.join(self.checks)}"
        lines = [
            f"loaded {count_of(self.rows_written, 'row')} from {count_of(self.files_read, 'file')}"
            f" into {self.table} in {format_seconds(self.seconds)}: {count_of(self.rows_per_second, 'row')}/s,"
            f" {format_bytes(self.read_bytes)} read, {count_of(self.s3_requests, 'S3 request')},"
            f" {count_of(self.initial_parts, 'initial part')}",
            *(
                f"  {name}: {count_of(node.rows_written, 'row')}, {count_of(node.files, 'file')},"
                f" {format_bytes(node.peak_memory_bytes)} peak memory, {count_of(node.initial_parts, 'part')}"
                for name, node in sorted(self.nodes.items())
            ),
            *([f"  predicted: {decode(Prediction, self.predicted, **_BLANK_PREDICTION)}"] if self.predicted else []),
            *(f"  checked: {check}" for check in self.checks),
            *([f"  skipped: {count_of(self.files_skipped, 'file')}"] if self.files_skipped else []),
            *([f"  too young: {count_of(self.files_too_young, 'file')}"] if self.files_too_young else []),
            *self._commit_lines(),
        ]
        return "\n".join(lines)

    def _commit_lines(self) -> list[str]:
        seconds = format_seconds(self.commit_seconds)
        lines = []
        if self.partitions:
            lines.append(
                f"  committed ({self.load_mode}) in {seconds}: {count_of(len(self.partitions), 'partition')}"
            )
        if self.replaced:
            rows = count_of(sum(self.replaced.values()), "row")
            partitions = count_of(len(self.replaced), "partition")
            lines.append(f"  replaced: {rows} in {partitions}: {describe_partitions(self.replaced)}")
        return lines


def describe_partitions(rows: Mapping[str, int]) -> str:
    """List the first partitions by name, with their rows: ``20130101 (842 rows), 20130102 (943 rows)``."""
    named = [f"{partition} ({count_of(rows[partition], 'row')})" for partition in sorted(rows)]
    more = [f"and {len(named) - MAX_NAMED_PARTITIONS} more"] if len(named) > MAX_NAMED_PARTITIONS else []
    return ", ".join([*named[:MAX_NAMED_PARTITIONS], *more])


# For reports written by other releases: a missing field is unknown, or counts as nothing.
_BLANK_NODE = {"files": 0, "rows_written": 0, "peak_memory_bytes": 0, "initial_parts": 0}
_BLANK_PREDICTION = {"initial_parts": 0, "peak_memory_bytes": 0, "load_seconds": 0.0, "settled_seconds": 0.0}
_BLANK: dict[str, Any] = {
    **dict.fromkeys(("query_id", "table"), "?"),
    **dict.fromkeys(("files_listed", "rows_listed", "size_bytes")),
    **dict.fromkeys(("files_read", "rows_read", "rows_written", "read_bytes", "s3_requests", "initial_parts"), 0),
    **dict.fromkeys(("peak_memory_bytes", "seconds", "ended", "rows_per_second"), 0),
    **{"attached": False, "settings": {}},
}


def build_report(status: QueryStatus, *, table: str, attached: bool) -> LoadReport:
    """Build the report from a finished query, its settings too: another process may have planned the load."""
    initial = next(row for row in status.ended if row["is_initial"])
    # On a cluster, each node's share, the initiator's own too, is a secondary query.
    workers = [row for row in status.ended if not row["is_initial"]] or [initial]
    expected = expected_work(status.log_comment)
    # A node that sends rows on to their shards counts the rows that it keeps twice in written_rows.
    in_parts = sum(row["part_rows"] for row in status.ended)
    rows_written = in_parts or initial["written_rows"] or sum(row["written_rows"] for row in workers)
    seconds = float(initial["duration_seconds"])
    return LoadReport(
        query_id=status.query_id,
        table=table,
        files_listed=expected.get("files"),
        files_read=sum(row["files"] for row in workers),
        rows_listed=expected.get("rows"),
        rows_read=initial["read_rows"],
        rows_written=rows_written,
        size_bytes=expected.get("bytes"),
        read_bytes=sum(row["s3_bytes"] for row in workers),
        s3_requests=sum(row["s3_requests"] for row in status.ended),
        seconds=seconds,
        ended=float(initial["start_seconds"]) + seconds,
        rows_per_second=round(rows_written / seconds, 1) if seconds else 0.0,
        peak_memory_bytes=max(row["peak_memory_bytes"] for row in status.ended),
        initial_parts=sum(row["initial_parts"] for row in status.ended),
        attached=attached,
        nodes={name: _node_report(status.ended, name) for name in sorted({row["node"] for row in workers})},
        settings=_logged_settings(initial["settings"]),
        volume_bytes=sum(row["part_bytes"] for row in status.ended),
    )


def describe_plan(plan: LoadPlan) -> dict[str, Any]:
    """Return the plan's part of a report."""
    return {
        "settings": {s.name: {"value": s.value, "origin": s.origin.value, "reason": s.reason} for s in plan.settings},
        "left_out_settings": dict(plan.left_out),
        "predicted": dataclasses.asdict(plan.prediction),
    }


def check_report(report: LoadReport, *, is_filtered: bool) -> None:
    """Compare what was read with what was listed.

    :param is_filtered: a condition leaves rows out.
    :raises LoadError: if files or rows differ; what was read is in the table nevertheless.
    """
    is_short = report.files_listed is not None and report.files_read < report.files_listed
    is_other = not is_filtered and report.rows_listed is not None and report.rows_read != report.rows_listed
    if is_short or is_other:
        listed_rows = f" with {count_of(report.rows_listed, 'row')}" if report.rows_listed is not None else ""
        raise LoadError(
            f"the listing found {count_of(report.files_listed or 0, 'file')}{listed_rows}, but {report.query_id} read"
            f" {count_of(report.files_read, 'file')} with {count_of(report.rows_read, 'row')}, so the files changed"
            f" in the meantime; what was read is in {report.table}: delete it, then clear the task to load again"
        )


def _node_report(ended: Sequence[Mapping[str, Any]], name: str) -> NodeReport:
    rows = [row for row in ended if row["node"] == name]
    return NodeReport(
        files=sum(row["files"] for row in rows),
        rows_written=sum(row["part_rows"] for row in rows) or sum(row["written_rows"] for row in rows),
        peak_memory_bytes=max(row["peak_memory_bytes"] for row in rows),
        initial_parts=sum(row["initial_parts"] for row in rows),
    )


def _logged_settings(logged: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {name: {"value": value, "origin": "server log", "reason": ""} for name, value in logged.items()}
