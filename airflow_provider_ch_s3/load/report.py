"""The report of a load: what the operator returns, and the ledger keeps; chunks have theirs joined."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ch_s3.common.codec import as_plain, decode
from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_count, format_seconds
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.query.progress import expected_work
from airflow_provider_ch_s3.query.state import QueryStatus
from airflow_provider_ch_s3.tuning import Prediction

# A table partitioned by day may have thousands, all of which a load may replace.
MAX_NAMED_PARTITIONS = 10


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """One node's share of a load.

    :param files: files that it opened.
    :param rows_written: rows that it wrote.
    :param peak_memory_bytes: its peak memory in the INSERT.
    :param initial_parts: parts that it wrote, before merges.
    :param read_bytes: bytes that it read of the files.
    :param requests: its requests to the store.
    """

    files: int
    rows_written: int
    peak_memory_bytes: int
    initial_parts: int
    read_bytes: int
    requests: int


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
    :param read_bytes: bytes that the servers read of the files: fewer than ``size_bytes`` where columns are left out.
    :param requests: requests to the store, on all nodes.
    :param seconds: duration of the INSERT alone, without merges and commit.
    :param ended: Unix time at which the INSERT ended, by the server's clock.
    :param rows_per_second: ``rows_written`` per second of the INSERT.
    :param peak_memory_bytes: peak memory of the INSERT on the node that took most.
    :param initial_parts: parts that the INSERT wrote before merges, on all nodes, in materialized views as well; 0 if
        the table's engine has no parts.
    :param attached: whether an earlier try submitted the INSERT, and this one took over its result.
    :param nodes: node (``host:port``) → its share of the load, a :class:`NodeReport`.
    :param settings: setting → ``value``, ``origin`` (``operator``, ``connection``, ``computed``, ``server default``;
        ``server log`` where no plan is known), ``reason``, and, of a plan, ``is_notable``: whether the value differs
        from the server's own or protects the data.
    :param left_out_settings: computed setting that the server does not accept → the reason.
    :param data_format: format of the files; '' where no plan is known.
    :param volume_bytes: size of the written rows in the server's memory; 0 if the table's engine has no parts.
    :param predicted: what the plan expected, a :class:`Prediction`; empty where no plan is known.
    :param load_mode: mode of the load, as the operator names it; ``append`` without staging.
    :param files_skipped: files that the table already held, in this version or another; not in ``files_listed``.
    :param files_too_young: files that were left out because they are younger than ``min_file_age``; not in
        ``files_listed``. The next load of the same source takes them. Of several chunks, the first one counts them.
    :param rows_rejected: rows that could not be loaded, and are in ``<table>_rejected`` (``on_bad_rows="reject"``).
    :param rejected: how many of them by ``file`` and ``reason``, the most frequent first, at most 100.
    :param columns_added: columns that the load has added to the table (``on_new_columns="add"``), with their types.
    :param checks: what was compared before the commit, one sentence for each check; empty without staging.
    :param partitions: partition id → staged rows; empty if there was nothing new to load, None without staging.
    :param replaced: partition id → rows that the commit removed from the table; without partitions that had none.
    :param commit_seconds: duration of the commit; 0 without staging.
    :param plan_seconds: duration of listing, inspecting and planning; 0 where no plan is known.
    :param settle_seconds: duration of the wait for the merges of the staged parts; 0 if the load did not wait.
    :param verify_seconds: duration of the comparison with the listing; 0 without staging.
    :param chunks: number of chunks in which the files were loaded, each with an INSERT and a commit of its own. With
        more than one, the numbers are their sums, ``query_id``, ``ended`` and the settings are those of the last
        one, ``peak_memory_bytes`` is the highest, and ``predicted`` is empty.
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
    requests: int
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
    rows_rejected: int = 0
    rejected: Sequence[Mapping[str, Any]] = ()
    columns_added: Mapping[str, str] = field(default_factory=dict)
    checks: Sequence[str] = ()
    partitions: Mapping[str, int] | None = None
    replaced: Mapping[str, int] = field(default_factory=dict)
    commit_seconds: float = 0.0
    plan_seconds: float = 0.0
    settle_seconds: float = 0.0
    verify_seconds: float = 0.0
    chunks: int = 1

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
    def nothing_new(
        cls, table: str, *, files_skipped: int = 0, files_too_young: int = 0, after_key: str = ""
    ) -> LoadReport:
        """Build the report of a load without files, or whose files were all loaded before or are too young.

        :param after_key: the last key that the table holds, if only keys after it were listed.
        """
        reasons = [f"the table holds all files up to {after_key!r}, and none is after it"] if after_key else []
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
            requests=0,
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
        """Return plain JSON values, for XCom: Airflow's API returns a tuple as text."""
        plain: dict[str, Any] = as_plain(dataclasses.asdict(self))
        return plain

    @property
    def rows_added(self) -> int:
        """Rows of the table itself, without those that were rejected, or went into materialized views."""
        return self.rows_written if self.partitions is None else sum(self.partitions.values())

    @property
    def outcome(self) -> str:
        """What the load has changed, in one sentence."""
        if self.is_nothing_new:
            return f"nothing new for {self.table}: {'; '.join(self.checks)}"
        rows, files = count_of(self.rows_added, "row"), count_of(self.files_read, "file")
        partitions = f" in {count_of(len(self.partitions), 'partition')}" if self.partitions else ""
        replaced = f", in the place of {count_of(sum(self.replaced.values()), 'row')}" if self.replaced else ""
        skipped = f"; {count_of(self.files_skipped, 'file')} skipped" if self.files_skipped else ""
        rejected = f"; {count_of(self.rows_rejected, 'row')} rejected" if self.rows_rejected else ""
        seconds = self.plan_seconds + self.seconds + self.settle_seconds + self.verify_seconds + self.commit_seconds
        after = format_seconds(seconds)
        return f"{self.table} has {rows} from {files}{partitions}{replaced}, after {after}{skipped}{rejected}"

    def __str__(self) -> str:
        if self.is_nothing_new:
            return self.outcome
        pieces = f", in {count_of(self.chunks, 'chunk')}," if self.chunks > 1 else ""
        lines = [
            f"loaded {count_of(self.rows_written, 'row')} from {count_of(self.files_read, 'file')}{pieces}"
            f" into {self.table} in {format_seconds(self.seconds)}: {count_of(self.rows_per_second, 'row')}/s,"
            f" {format_bytes(self.read_bytes)} read, {count_of(self.requests, 'request')},"
            f" {count_of(self.initial_parts, 'initial part')}",
            *(
                f"  {name}: {count_of(node.rows_written, 'row')}, {count_of(node.files, 'file')},"
                f" {format_bytes(node.read_bytes)} read, {count_of(node.requests, 'request')},"
                f" {format_bytes(node.peak_memory_bytes)} peak memory, {count_of(node.initial_parts, 'part')}"
                for name, node in sorted(self.nodes.items())
            ),
            *([f"  predicted: {decode(Prediction, self.predicted, **_BLANK_PREDICTION)}"] if self.predicted else []),
            *(f"  checked: {check}" for check in self.checks),
            *([f"  rejected: {count_of(self.rows_rejected, 'row')}"] if self.rows_rejected else []),
            *([f"  columns added: {', '.join(self.columns_added)}"] if self.columns_added else []),
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
_BLANK_NODE = dict.fromkeys((one.name for one in dataclasses.fields(NodeReport)), 0)
_BLANK_PREDICTION = {"initial_parts": 0, "peak_memory_bytes": 0, "load_seconds": 0.0, "settled_seconds": 0.0}
_BLANK: dict[str, Any] = {
    **dict.fromkeys(("query_id", "table"), "?"),
    **dict.fromkeys(("files_listed", "rows_listed", "size_bytes")),
    **dict.fromkeys(("files_read", "rows_read", "rows_written", "read_bytes", "requests", "initial_parts"), 0),
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
        read_bytes=sum(row["store_bytes"] for row in workers),
        requests=sum(row["requests"] for row in status.ended),
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


def check_report(report: LoadReport, *, is_filtered: bool, is_read_whole: bool = False) -> None:
    """Compare what was read with what was listed.

    :param is_filtered: a condition leaves rows out.
    :param is_read_whole: the servers must have read every byte.
    :raises LoadError: if files, bytes or rows differ; what was read is in the table nevertheless.
    """
    if is_read_whole and report.read_bytes < (report.size_bytes or 0):
        raise LoadError(
            f"the files have {count_of(report.size_bytes or 0, 'byte')}, but {report.query_id} read"
            f" {format_count(report.read_bytes)}: the server sent less than it announced; what was read is in"
            f" {report.table}: delete it, then clear the task to load again"
        )
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
        read_bytes=sum(row["store_bytes"] for row in rows if len(rows) == 1 or not row["is_initial"]),
        requests=sum(row["requests"] for row in rows),
    )


def _logged_settings(logged: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {name: {"value": value, "origin": "server log", "reason": ""} for name, value in logged.items()}


_STEPS = ("plan_seconds", "settle_seconds", "verify_seconds", "commit_seconds")


def join_reports(reports: Sequence[LoadReport]) -> LoadReport:
    """Build the report of a whole load from those of its chunks, in their order.

    What was computed and predicted, and how, differs between chunks: the ledger has it for each of them.
    """
    last = reports[-1]
    if len(reports) == 1:
        return last
    seconds = round(sum(one.seconds for one in reports), 3)
    rows_written = sum(one.rows_written for one in reports)
    return dataclasses.replace(
        last,
        chunks=len(reports),
        files_listed=_sum(one.files_listed for one in reports),
        files_read=sum(one.files_read for one in reports),
        rows_listed=_sum(one.rows_listed for one in reports),
        rows_read=sum(one.rows_read for one in reports),
        rows_written=rows_written,
        size_bytes=_sum(one.size_bytes for one in reports),
        read_bytes=sum(one.read_bytes for one in reports),
        requests=sum(one.requests for one in reports),
        seconds=seconds,
        rows_per_second=round(rows_written / seconds, 1) if seconds else 0.0,
        peak_memory_bytes=max(one.peak_memory_bytes for one in reports),
        initial_parts=sum(one.initial_parts for one in reports),
        attached=any(one.attached for one in reports),
        nodes=_join_nodes([one.nodes for one in reports]),
        volume_bytes=sum(one.volume_bytes for one in reports),
        predicted={},
        files_skipped=sum(one.files_skipped for one in reports),
        rows_rejected=sum(one.rows_rejected for one in reports),
        rejected=tuple(reason for one in reports for reason in one.rejected)[:100],
        columns_added={name: kind for one in reports for name, kind in one.columns_added.items()},
        files_too_young=sum(one.files_too_young for one in reports),
        checks=(f"{count_of(len(reports), 'chunk')}, each of them before its commit",),
        partitions=_join_rows([one.partitions or {} for one in reports]),
        **{name: round(sum(getattr(one, name) for one in reports), 3) for name in _STEPS},
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Sum up numbers; None if one of them is unknown."""
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)


def _join_rows(rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(one.get(name, 0) for one in rows) for name in sorted({name for one in rows for name in one})}


def _join_nodes(nodes: Sequence[Mapping[str, NodeReport]]) -> dict[str, NodeReport]:
    return {
        name: NodeReport(
            files=sum(one.files for one in shares),
            rows_written=sum(one.rows_written for one in shares),
            peak_memory_bytes=max(one.peak_memory_bytes for one in shares),
            initial_parts=sum(one.initial_parts for one in shares),
            read_bytes=sum(one.read_bytes for one in shares),
            requests=sum(one.requests for one in shares),
        )
        for name in sorted({name for one in nodes for name in one})
        if (shares := [one[name] for one in nodes if name in one])
    }
