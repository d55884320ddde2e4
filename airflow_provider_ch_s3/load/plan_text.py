"""A plan as text, for the log of a load, where Airflow's UI folds it, and for ``ch-s3 plan``."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Sequence

from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_count
from airflow_provider_ch_s3.common.work import log_folded
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.tuning import Setting

log = logging.getLogger(__name__)

# Airflow's UI cuts longer lines off at its right edge, if the window has the width of a laptop's screen.
LINE_LENGTH = 100


def format_plan(prepared: PreparedLoad, *, show_all: bool = False) -> str:
    """Format a plan: what is loaded, each setting with its origin and reason, what was left out, what to expect.

    :param show_all: include the settings that neither differ from the server's own nor protect the data.
    """
    source, plan, node = prepared.source, prepared.plan, prepared.cluster.weakest
    rows = count_of(source.rows, "row") if source.rows is not None else "number of rows unknown before reading"
    settings = _all_settings(prepared)
    shown = [setting for setting in settings if show_all or setting.is_notable]
    hidden = count_of(len(settings) - len(shown), "more setting")
    # in one line: an address may be long, and is copied as a whole
    files = (
        f"files     {format_count(len(source.files))} x {source.data_format}, {format_bytes(source.size_bytes)},"
        f" {rows}, from {source.pattern}"
    )
    lines = [
        *([] if prepared.chunk.is_only else [f"chunk     {prepared.chunk.describe_share()}"]),
        f"table     {prepared.target.name} ({prepared.target.engine}), {count_of(len(prepared.mapping), 'column')}",
        f"cluster   {prepared.cluster.node_count} x {count_of(node.vcpus, 'core')},"
        f" {format_bytes(node.memory_bytes)};"
        f" cores: {prepared.cluster.vcpus_origin.value}, memory: {prepared.cluster.memory_origin.value}",
        f"memory    {prepared.cluster.ingest_memory_ratio:.0%} per node, {prepared.sharing}",
        "settings",
        _format_settings(shown),
        *([] if show_all else [f"  {hidden} as the server has them: see `ch-s3 plan --all`"]),
        *(f"  {name} left out: {reason}" for name, reason in plan.left_out.items()),
        f"expected  {plan.prediction}; {plan.basis}",
    ]
    return "\n".join([files, *(_wrap(line, indent=10) for line in "\n".join(lines).splitlines())])


def log_plan(prepared: PreparedLoad) -> None:
    """Log the plan with the reasons of what is notable, and its other settings folded."""
    for note in prepared.cluster.notes:
        log.warning("%s", note)
    log.info("plan for %s:\n%s", prepared.target.name, format_plan(prepared))
    others = [setting for setting in _all_settings(prepared) if not setting.is_notable]
    log_folded(log, f"the other {count_of(len(others), 'setting')}", _format_settings(others))


def _all_settings(prepared: PreparedLoad) -> Sequence[Setting]:
    """The settings that have a value for this load."""
    return [one for one in (*prepared.plan.settings, *prepared.plan.kept) if one.value is not None]


def _format_settings(settings: Sequence[Setting]) -> str:
    return "\n".join(
        f"  {setting.name} = {setting.value}  [{setting.origin.value}]\n{_wrap(f'      {setting.reason}', indent=6)}"
        for setting in settings
    )


def _wrap(line: str, *, indent: int) -> str:
    """Wrap a line between words; further lines begin below its text."""
    return textwrap.fill(
        line,
        LINE_LENGTH,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
