"""The report of a load of several chunks, from theirs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_ch_s3.load.report import LoadReport, NodeReport
from airflow_provider_ch_s3.units import count_of

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
        )
        for name in sorted({name for one in nodes for name in one})
        if (shares := [one[name] for one in nodes if name in one])
    }
