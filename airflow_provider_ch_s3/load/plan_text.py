"""A plan as text, for the log of a load and for ``ch-s3 plan``."""

from __future__ import annotations

import logging

from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.units import count_of, format_bytes, format_count

log = logging.getLogger(__name__)


def format_plan(prepared: PreparedLoad, *, show_all: bool = False) -> str:
    """Format a plan: what is loaded, each setting with its origin and reason, what was left out, what to expect.

    :param show_all: include the settings that neither differ from the server's own nor protect the data.
    """
    source, plan, node = prepared.source, prepared.plan, prepared.cluster.weakest
    rows = count_of(source.rows, "row") if source.rows is not None else "number of rows unknown before reading"
    settings = (*plan.settings, *plan.kept)
    shown = [setting for setting in settings if show_all or setting.is_notable]
    hidden = count_of(len(settings) - len(shown), "more setting")
    width = max((len(f"{s.name} = {s.value}") for s in shown), default=0)
    lines = [
        f"files     {format_count(len(source.files))} x {source.data_format}, {format_bytes(source.size_bytes)},"
        f" {rows}, from {source.pattern}",
        f"table     {prepared.target.name} ({prepared.target.engine}), {count_of(len(prepared.mapping), 'column')}",
        f"cluster   {prepared.cluster.node_count} x {count_of(node.vcpus, 'core')},"
        f" {format_bytes(node.memory_bytes)};"
        f" cores: {prepared.cluster.vcpus_origin.value}, memory: {prepared.cluster.memory_origin.value}",
        f"memory    {prepared.cluster.ingest_memory_ratio:.0%} per node, {prepared.sharing}",
        "settings",
        *(f"  {f'{s.name} = {s.value}':<{width}}  [{s.origin.value}] {s.reason}" for s in shown),
        *([] if show_all else [f"  {hidden} as the server has them: see `ch-s3 plan --all`"]),
        *(f"  {name} left out: {reason}" for name, reason in plan.left_out.items()),
        f"expected  {plan.prediction}; {plan.basis}",
    ]
    return "\n".join(lines)


def log_plan(prepared: PreparedLoad) -> None:
    """Log the plan, setting by setting, with the reasons."""
    for note in prepared.cluster.notes:
        log.warning("%s", note)
    log.info("plan for %s:\n%s", prepared.target.name, format_plan(prepared))
