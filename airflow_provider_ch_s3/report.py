"""The report of a load: returned by the operator, and kept in the ledger; the reports of chunks are joined."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

from airflow_provider_ch_s3.common.codec import as_plain
from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_count, format_seconds
from airflow_provider_ch_s3.monitoring.progress import expected_work
from airflow_provider_ch_s3.monitoring.state import QueryStatus
from airflow_provider_ch_s3.table.row_check import CheckResult
from airflow_provider_ch_s3.tuning import LoadPlan, Prediction, Reduction

# A table partitioned by day may have thousands, and a load may replace all.
MAX_NAMED_PARTITIONS = 10
# Files and reasons of bad rows.
MAX_REJECTED = 100
# What may become of a row of the files in a merge.
OUTCOMES = ("inserted", "updated", "deleted", "unchanged", "late")


def _sum(numbers: Sequence[int | float | None]) -> int | float | None:
    """Add up numbers; None if any number is unknown."""
    known = [number for number in numbers if number is not None]
    total = sum(known)
    return None if len(known) < len(numbers) else round(total, 3) if isinstance(total, float) else total


def _sum_each(rows: Sequence[Mapping[str, int] | None]) -> dict[str, int]:
    names = sorted({name for one in rows for name in one or ()})
    return {name: sum(one.get(name, 0) for one in rows if one) for name in names}


def _merge(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for one in values for name, value in one.items()}


def _describe_chunks(checks: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return (f"{count_of(len(checks), 'chunk')}, each of them before its commit",)


def _join_row_checks(chunks: Sequence[Sequence[CheckResult]]) -> tuple[CheckResult, ...]:
    """For each check, the first chunk that did not fulfil the check, or else the last chunk."""
    joined: dict[str, CheckResult] = {}
    for one in chain(*chunks):
        if one.name not in joined or joined[one.name].passed:
            joined[one.name] = one
    return tuple(joined.values())


def _join_nodes(nodes: Sequence[Mapping[str, NodeReport]]) -> dict[str, NodeReport]:
    names = sorted({name for one in nodes for name in one})
    return {name: _join([one[name] for one in nodes if name in one]) for name in names}


def _reported(join: Callable[[Sequence[Any]], Any], nothing: Any = 0) -> Any:
    """A field with a function that joins the values of several chunks, and with a value for nothing or unknown.

    A field without a function has the value of the last chunk.
    """
    given: dict[str, Any] = {"default_factory": dict} if nothing == {} else {"default": nothing}
    return field(**given, metadata={"join": join})


Report = TypeVar("Report", "NodeReport", "LoadReport")


def _join(reports: Sequence[Report]) -> Report:
    joined = {
        one.name: one.metadata["join"]([getattr(report, one.name) for report in reports])
        for one in dataclasses.fields(reports[0])
        if "join" in one.metadata
    }
    return dataclasses.replace(reports[-1], **joined)


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """A node's share of a load.

    :param files: number of opened files.
    :param rows_written: number of written rows.
    :param peak_memory_bytes: peak memory in the INSERT: the sum over the node's parts of the query.
    :param initial_parts: number of written parts, before merges.
    :param read_bytes: bytes read from the files.
    :param requests: requests to the store.
    """

    files: int = _reported(_sum)
    rows_written: int = _reported(_sum)
    peak_memory_bytes: int = _reported(max)
    initial_parts: int = _reported(_sum)
    read_bytes: int = _reported(_sum)
    requests: int = _reported(_sum)


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What a load did; passed through XCom as a dict of plain values.

    :param query_id: id of the INSERT in ``system.query_log``; '' if there was nothing new to load.
    :param table: the table, as the operator names it.
    :param files_listed: files that the load was asked to read; None if the INSERT's ``log_comment`` is lost.
    :param files_read: opened files: more than listed if nodes share a file, or if file names contain characters that
        make the servers open files with similar names, too.
    :param rows_listed: rows in the files, by their footers; None if the files have no footers (only Parquet files
        do), if files with similar names are opened, too, or if the ``log_comment`` is lost.
    :param rows_read: rows as the servers count them; for Parquet files only the rows that ``where`` lets through.
    :param rows_written: rows written by the INSERT, in materialized views as well; fewer than ``rows_read`` if
        ``where`` leaves some out.
    :param size_bytes: stored size of the files; None if the ``log_comment`` is lost.
    :param read_bytes: bytes that the servers read of the files: fewer than ``size_bytes`` if columns are left out.
    :param requests: requests to the store, on all nodes.
    :param seconds: duration of the INSERT alone, without merges and commit.
    :param ended: Unix time at the end of the INSERT, by the server's clock.
    :param rows_per_second: ``rows_written`` per second of the INSERT.
    :param peak_memory_bytes: peak memory of the INSERT on the node with the highest peak: the sum over the node's
        parts of the query.
    :param initial_parts: parts written by the INSERT before merges, on all nodes, in materialized views as well; 0 if
        the table's engine has no parts.
    :param attached: whether an earlier try submitted the INSERT, and this try took over the result.
    :param nodes: node (``host:port``) → the node's share of the load, a :class:`NodeReport`.
    :param settings: setting → ``value``, ``origin`` (``operator``, ``connection``, ``computed``, ``server default``;
        ``server log`` if no plan is known), ``reason``, and, from a plan, ``is_notable``: more than a guard with the
        servers' own value. Through XCom only without staging: the tab "Load report" reads them from the ledger.
    :param left_out_settings: computed setting that the server does not accept → the reason; as ``settings``.
    :param data_format: format of the files; '' if no plan is known, and without staging.
    :param snapshot: of a lake table: ``table_uuid``, and ``id``, ``time``, ``operation``, ``schema_id`` of the loaded
        snapshot; ``after``: id of the snapshot in the table before, '' if all rows of the snapshot were loaded. Empty
        unless the source is a lake table.
    :param volume_bytes: size of the written rows in the server's memory; 0 if the table's engine has no parts.
    :param predicted: what the plan expected, a :class:`Prediction`; None if no plan is known.
    :param load_mode: mode of the load, as the operator names it; ``append`` without staging.
    :param files_skipped: files that the table already held, in this version or another; not in ``files_listed``.
    :param files_too_young: files left out because they are younger than ``min_age``; not in ``files_listed``. The
        next load of the same source takes them. For several chunks, the first chunk counts them.
    :param rows_rejected: number of bad rows, which are in ``<table>_rejected`` (``Reject(…)``).
    :param rejected: number of bad rows by ``file`` and ``reason``, the most frequent first, at most 100.
    :param columns_added: columns that the load has added to the table (``Columns(on_new="add")``), with their types.
    :param reduction: how often a load was reduced because it failed for want of resources: blocks and threads halved
        for ``memory``, ``readers`` halved for a store that refused requests; ``again``: how often this try loaded
        again.
    :param checks: what was compared before the commit, a sentence for each check; empty without staging.
    :param row_checks: for each of the operator's ``checks``: ``name``, ``expression``, ``on_failure``, ``passed``
        (None if the result is NULL). For a comparison, also ``left``, ``comparison`` and ``right`` with the two
        values as texts, and a ``note`` on the values. ``error``, if the check could not be computed. For several
        chunks, the result of the first chunk that did not fulfil the check.
    :param is_validated_only: the rows were checked and dropped (``Checks(validate_only=True)``): nothing was
        committed.
    :param is_held: the rows are staged and checked, and nothing is committed yet (``commit="held"``).
    :param held_in: the view of the held rows; '' unless the rows are held.
    :param partitions: partition id → staged rows, 0 if rows were only removed; empty if there was nothing new to
        load, None without staging.
    :param replaced: partition id → rows removed from the table by the commit; without partitions that lost no rows.
    :param rows_now: rows of the table after the commit, on all shards; None without staging, and if merges change the
        number: rows deleted by a lightweight ``DELETE``, a TTL, or another engine than ``MergeTree``.
    :param merge: for ``merge``, the rows of the files by what became of them: ``inserted``, ``updated``, ``deleted``,
        ``unchanged`` and ``late`` (the table or the files have a newer row of the key, or the files have the same row
        again); and ``rewritten_partitions``, ``rewritten_rows`` and ``rewritten_bytes``: the partitions with replaced
        or deleted rows. Empty in the other modes.
    :param commit_seconds: duration of the commit, with the preparation of the rows that replace partitions; 0 without
        staging.
    :param plan_seconds: duration of listing, inspecting and planning; 0 if no plan is known.
    :param settle_seconds: duration of the wait for the merges of the staged parts; 0 if the load did not wait.
    :param verify_seconds: duration of the comparison with the listing; 0 without staging.
    :param chunks: number of chunks in which the files were loaded, each with a separate INSERT and commit. With
        several chunks, the numbers are sums, ``query_id``, ``ended`` and the settings are from the last chunk,
        ``peak_memory_bytes`` is the highest, and ``predicted`` is None.
    """

    query_id: str = "?"
    table: str = "?"
    files_listed: int | None = _reported(_sum, None)
    files_read: int = _reported(_sum)
    rows_listed: int | None = _reported(_sum, None)
    rows_read: int = _reported(_sum)
    rows_written: int = _reported(_sum)
    size_bytes: int | None = _reported(_sum, None)
    read_bytes: int = _reported(_sum)
    requests: int = _reported(_sum)
    seconds: float = _reported(_sum, 0.0)
    ended: float = 0.0
    rows_per_second: float = 0.0
    peak_memory_bytes: int = _reported(max)
    initial_parts: int = _reported(_sum)
    attached: bool = _reported(any, False)
    nodes: Mapping[str, NodeReport] = _reported(_join_nodes, {})
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out_settings: Mapping[str, str] = field(default_factory=dict)
    data_format: str = ""
    snapshot: Mapping[str, str] = field(default_factory=dict)
    volume_bytes: int = _reported(_sum)
    predicted: Prediction | None = _reported(lambda _: None, None)
    load_mode: str = "append"
    files_skipped: int = _reported(_sum)
    files_too_young: int = _reported(_sum)
    rows_rejected: int = _reported(_sum)
    rejected: Sequence[Mapping[str, Any]] = _reported(lambda files: tuple(chain(*files))[:MAX_REJECTED], ())
    columns_added: Mapping[str, str] = _reported(_merge, {})
    reduction: Reduction = field(default_factory=Reduction)
    checks: Sequence[str] = _reported(_describe_chunks, ())
    row_checks: Sequence[CheckResult] = _reported(_join_row_checks, ())
    is_validated_only: bool = False
    is_held: bool = False
    held_in: str = ""
    partitions: Mapping[str, int] | None = _reported(_sum_each, None)
    replaced: Mapping[str, int] = _reported(_sum_each, {})
    rows_now: int | None = None
    merge: Mapping[str, int] = field(default_factory=dict)
    commit_seconds: float = _reported(_sum, 0.0)
    plan_seconds: float = _reported(_sum, 0.0)
    settle_seconds: float = _reported(_sum, 0.0)
    verify_seconds: float = _reported(_sum, 0.0)
    chunks: int = _reported(len, 1)

    @classmethod
    def nothing_new(
        cls,
        table: str,
        *,
        files_skipped: int = 0,
        files_too_young: int = 0,
        after_key: str = "",
        snapshot: Mapping[str, str] = MappingProxyType({}),
    ) -> LoadReport:
        """Build the report of a load without files, or whose files were all loaded before or are too young.

        :param snapshot: of a lake table, as in the report.
        :param after_key: the last key that the table holds, if only later keys were listed.
        """
        reasons = [f"the table holds all files up to {after_key!r}, and none is after it"] if after_key else []
        if snapshot.get("after"):
            reasons.append(f"snapshot {snapshot['id']} has no files that were added after {snapshot['after']}")
        if files_skipped:
            reasons.append(
                f"the table already holds {count_of(files_skipped, 'listed file')}, in this version or another"
            )
        if files_too_young:
            reasons.append(f"{count_of(files_too_young, 'file')} younger than min_age")
        return cls(
            query_id="",
            table=table,
            files_listed=0,
            rows_listed=0,
            size_bytes=0,
            ended=time.time(),
            files_skipped=files_skipped,
            files_too_young=files_too_young,
            checks=tuple(reasons) or ("no file matches the source",),
            partitions={},
            snapshot=dict(snapshot),
        )

    @property
    def about(self) -> dict[str, str | int]:
        """Facts for the recorded steps of the load."""
        return {"table": self.table, "rows": self.rows_written, "query_id": self.query_id}

    @property
    def is_nothing_new(self) -> bool:
        """Whether there was nothing to load, so that the table was not changed."""
        return not self.query_id

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, for XCom: Airflow's API returns a tuple as text.

        The settings of a staged load are not among the values: the ledger has the settings, and no task needs them.
        """
        plain: dict[str, Any] = as_plain(dataclasses.asdict(self))
        if self.partitions is not None:
            del plain["settings"], plain["left_out_settings"]
        return plain

    @property
    def rows_added(self) -> int:
        """Rows of the table itself, without bad rows, and without rows in materialized views."""
        return self.rows_written if self.partitions is None else sum(self.partitions.values())

    @property
    def total_seconds(self) -> float:
        """From the listing to the commit."""
        return self.plan_seconds + self.seconds + self.settle_seconds + self.verify_seconds + self.commit_seconds

    @property
    def outcome(self) -> str:
        """What the load has changed, in a sentence."""
        if self.is_nothing_new:
            return f"nothing new for {self.table}: {'; '.join(self.checks)}"
        rows, files = count_of(self.rows_added, "row"), count_of(self.files_read, "file")
        partitions = f" in {count_of(len(self.partitions), 'partition')}" if self.partitions else ""
        replaced = f", in the place of {count_of(sum(self.replaced.values()), 'row')}" if self.replaced else ""
        skipped = f"; {count_of(self.files_skipped, 'file')} skipped" if self.files_skipped else ""
        rejected = f"; {count_of(self.rows_rejected, 'row')} rejected" if self.rows_rejected else ""
        failed = [one.name for one in self.row_checks if not one.passed]
        warned = f"; {count_of(len(failed), 'check')} not fulfilled: {', '.join(failed)}" if failed else ""
        now = "" if self.rows_now is None else f" ({count_of(self.rows_now, 'row')} now)"
        after = format_seconds(self.total_seconds)
        if self.is_held:
            return f"{self.table} was not changed: {rows} from {files}{partitions} held in {self.held_in}{warned}"
        if self.is_validated_only:
            merged = f" ({self.merged})" if self.merge else ""
            return (
                f"{self.table} was not changed: {rows} from {files}{partitions} only validated{merged},"
                f" after {after}{warned}"
            )
        if self.merge:
            return f"merged {rows} from {files} into {self.table}{now}: {self.merged}, after {after}{warned}"
        loaded = f"loaded {rows} from {files} into {self.table}{now}{partitions}{replaced}"
        return f"{loaded}, after {after}{skipped}{rejected}{warned}"

    @property
    def merged(self) -> str:
        """What became of the rows of a merge: ``3 inserted, 2 updated, 1 deleted, 0 unchanged, 0 late``."""
        return ", ".join(f"{format_count(self.merge[name])} {name}" for name in OUTCOMES if name in self.merge)

    def __str__(self) -> str:
        if self.is_nothing_new:
            return self.outcome
        pieces = f", in {count_of(self.chunks, 'chunk')}," if self.chunks > 1 else ""
        did = "validated" if self.is_validated_only else "staged" if self.is_held else "loaded"
        lines = [
            f"{did} {count_of(self.rows_written, 'row')} from {count_of(self.files_read, 'file')}{pieces}"
            f" into {self.table}: INSERT {format_seconds(self.seconds)}, {count_of(self.rows_per_second, 'row')}/s,"
            f" {format_bytes(self.read_bytes)} read, {count_of(self.requests, 'request')},"
            f" {count_of(self.initial_parts, 'initial part')}",
            *(
                f"  {name}: {count_of(node.rows_written, 'row')}, {count_of(node.files, 'file')},"
                f" {format_bytes(node.read_bytes)} read, {count_of(node.requests, 'request')},"
                f" {format_bytes(node.peak_memory_bytes)} peak memory, {count_of(node.initial_parts, 'part')}"
                for name, node in sorted(self.nodes.items())
            ),
            *([f"  predicted: {self.predicted}"] if self.predicted else []),
            *([f"  blocks and threads: {self.reduction}"] if self.reduction.is_any else []),
            *(f"  checked: {check}" for check in self.checks),
            *(f"  {one}" for one in self.row_checks),
            *([f"  snapshot: {describe_snapshot(self.snapshot)}"] if self.snapshot else []),
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
        if self.is_validated_only:
            lines.append("  committed: nothing, because of Checks(validate_only=True)")
        elif self.is_held:
            lines.append(f"  committed: nothing yet, because of commit='held'; the rows are in {self.held_in}")
        elif self.partitions:
            lines.append(
                f"  committed ({self.load_mode}) in {seconds}: {count_of(len(self.partitions), 'partition')}"
            )
        if self.merge:
            would_be = "would be " if self.is_validated_only else ""
            lines.append(f"  {would_be}merged: {self.merged}")
            rows, size = count_of(self.merge["rewritten_rows"], "row"), format_bytes(self.merge["rewritten_bytes"])
            partitions = count_of(self.merge["rewritten_partitions"], "partition")
            lines.append(f"  {would_be}rewritten: {partitions} with {rows}, {size}")
        if self.replaced:
            rows = count_of(sum(self.replaced.values()), "row")
            partitions = count_of(len(self.replaced), "partition")
            lines.append(f"  replaced: {rows} in {partitions}: {describe_partitions(self.replaced)}")
        return lines


def describe_snapshot(facts: Mapping[str, str]) -> str:
    """Describe what was loaded of a lake table: ``7 (append, 2026-11-25T…, schema 2), what was added after 5``."""
    schema = facts["schema_id"] and f"schema {facts['schema_id']}"
    about = ", ".join(filter(None, (facts["operation"], facts["time"], schema)))
    did = "changed" if facts.get("changes") else "added"
    what = f"what was {did} after {facts['after']}" if facts["after"] else "all of its rows"
    return f"{facts['id']}{f' ({about})' if about else ''}, {what}"


def describe_partitions(rows: Mapping[str, int]) -> str:
    """List the first partitions by name, with their rows: ``20130101 (842 rows), 20130102 (943 rows)``."""
    named = [f"{partition} ({count_of(rows[partition], 'row')})" for partition in sorted(rows)]
    more = [f"and {len(named) - MAX_NAMED_PARTITIONS} more"] if len(named) > MAX_NAMED_PARTITIONS else []
    return ", ".join([*named[:MAX_NAMED_PARTITIONS], *more])


def describe_settings(plan: LoadPlan) -> dict[str, dict[str, Any]]:
    """Return the settings of a plan for a report."""
    return {
        s.name: {"value": s.value, "origin": s.origin.value, "reason": s.reason, "is_notable": s.is_notable}
        for s in plan.settings
    }


def build_report(status: QueryStatus, *, table: str, attached: bool) -> LoadReport:
    """Build the report from a finished query, including settings: another process may have planned the load."""
    initial = next(row for row in status.ended if row["is_initial"])
    # On a cluster, each node's share, the initiator's own too, is a secondary query.
    workers = [row for row in status.ended if not row["is_initial"]] or [initial]
    expected = expected_work(status.log_comment)
    # A node that sends rows on to their shards counts the kept rows twice in written_rows.
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
        peak_memory_bytes=max(_peak_memory_bytes(status.ended).values()),
        initial_parts=sum(row["initial_parts"] for row in status.ended),
        attached=attached,
        nodes={name: _node_report(status.ended, name) for name in sorted({row["node"] for row in workers})},
        settings={
            name: {"value": value, "origin": "server log", "reason": ""}
            for name, value in initial["settings"].items()
        },
        volume_bytes=sum(row["part_bytes"] for row in status.ended),
    )


def _node_report(ended: Sequence[Mapping[str, Any]], name: str) -> NodeReport:
    rows = [row for row in ended if row["node"] == name]
    return NodeReport(
        files=sum(row["files"] for row in rows),
        rows_written=sum(row["part_rows"] for row in rows) or sum(row["written_rows"] for row in rows),
        peak_memory_bytes=_peak_memory_bytes(rows)[name],
        initial_parts=sum(row["initial_parts"] for row in rows),
        read_bytes=sum(row["store_bytes"] for row in rows if len(rows) == 1 or not row["is_initial"]),
        requests=sum(row["requests"] for row in rows),
    )


def _peak_memory_bytes(ended: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Add up, by node, the peaks of all parts of the query: the parts on a node run at the same time."""
    peaks: Counter[str] = Counter()
    for row in ended:
        peaks[row["node"]] += row["peak_memory_bytes"]
    return peaks


def join_reports(reports: Sequence[LoadReport]) -> LoadReport:
    """Build the report of a whole load from the reports of the chunks, in their order.

    Computed settings and predictions differ between chunks: the ledger has them for each chunk.
    """
    if len(reports) == 1:
        return reports[0]
    joined = _join(reports)
    speed = round(joined.rows_written / joined.seconds, 1) if joined.seconds else 0.0
    return dataclasses.replace(joined, rows_per_second=speed)
