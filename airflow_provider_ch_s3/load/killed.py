"""What became of a load that was killed, for the log of its task."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.units import count_of


def describe_end(nodes: Collection[str]) -> str:
    """Where the queries of a load were ended.

    :param nodes: that were seen to run them.
    """
    if not nodes:
        return "killed: nothing of it runs any more"
    return f"killed: ended on {count_of(len(nodes), 'node')}"


def describe_kill(nodes: Collection[str], table: str, attempts: Sequence[Attempt]) -> str:
    """Where its queries were ended, and what the table holds now.

    :param nodes: as of :func:`describe_end`.
    :param attempts: of this generation of the task, as the ledger tells them after the kill; none where the load
        was not staged, or had not begun.
    """
    if attempts:
        found = _describe_commit(table, attempts)
    elif nodes:
        found = f"rows that it had written stay in {table} (staging=False)"
    else:
        found = "it had staged nothing"
    return f"{describe_end(nodes)}; {found}"


def _describe_commit(table: str, attempts: Sequence[Attempt]) -> str:
    if any(attempt.is_broken for attempt in attempts):
        return f"its commit had begun and cannot be finished: {table} may hold a part of its rows"
    if any(attempt.state is EventKind.COMMITTED for attempt in attempts):
        return f"its commit had begun and was finished: {table} holds all its rows"
    return f"nothing of {table} was changed"
