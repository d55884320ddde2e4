"""What the ledger records of an attempt when it is planned."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_ch_s3.exactly_once.owner import Target
from airflow_provider_ch_s3.exactly_once.staging import VIEW
from airflow_provider_ch_s3.exactly_once.views import View
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.selection import ChunkSelection
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.tuning import LoadPlan


def describe_attempt(
    target: Target,
    identity: LoadIdentity,
    request: LoadRequest,
    prepared: PreparedLoad,
    selection: ChunkSelection,
    views: Sequence[View],
    *,
    plan_seconds: float,
    columns_added: Mapping[str, str],
) -> dict[str, Any]:
    """Build the detail of the event ``planned``: plain values, for users and for processes that continue the load.

    :param plan_seconds: what listing, inspecting and planning took.
    :param columns_added: columns that the load has added to the table, with their types.
    """
    return {
        **identity.names,
        "since": identity.life.since,
        "definition": target.spec.definition,
        "table": request.table,
        "source": str(request.pattern),
        "load_mode": request.load_mode.value,
        "arguments": request.fingerprints,
        "files": len(selection.files),
        **selection.left_out.counts,
        "chunk": prepared.chunk.as_dict(),
        **({"snapshot": prepared.chunk.facts} if prepared.chunk.snapshots else {}),
        "bytes": prepared.source.size_bytes,
        "rows": prepared.rows,
        "data_format": prepared.source.data_format,
        "is_pattern": prepared.source.is_pattern,
        **({"filled": _filled(prepared, request)} if prepared.merge else {}),
        "provenance": {name: origin.value for name, origin in request.provenance.items()},
        # a filter on _path drops the rows of files with similar names after they have been read
        "is_filtered": bool(request.where or prepared.source.path_filter),
        "views": {f"{VIEW}{n}": (view.table.database, view.table.table) for n, view in enumerate(views)},
        "reduction": prepared.plan.reduction._asdict() if any(prepared.plan.reduction) else {},
        "plan_seconds": plan_seconds,
        **describe_plan(prepared.plan),
        "columns_added": dict(columns_added),
    }


def _filled(prepared: PreparedLoad, request: LoadRequest) -> list[str]:
    """The columns that the files fill: the same row of another file is the same row."""
    return [column.target for column in prepared.mapping if column.target not in request.provenance]


def describe_plan(plan: LoadPlan) -> dict[str, Any]:
    """Return the plan's part of a report."""
    return {
        "settings": {
            s.name: {"value": s.value, "origin": s.origin.value, "reason": s.reason, "is_notable": s.is_notable}
            for s in plan.settings
        },
        "left_out_settings": dict(plan.left_out),
        "predicted": dataclasses.asdict(plan.prediction),
    }
