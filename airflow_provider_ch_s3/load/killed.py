"""Describe the outcome of killing a load, for the task's log."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from airflow_provider_ch_s3.exactly_once.history import Attempt, EventKind
from airflow_provider_ch_s3.load.chunks import chunk_of
from airflow_provider_ch_s3.units import count_of


def describe_end(nodes: Collection[str]) -> str:
    """Describe where the queries of a load were killed.

    :param nodes: those that were running them.
    """
    if not nodes:
        return "killed: none of its queries is running"
    return f"killed on {count_of(len(nodes), 'node')}"


def describe_kill(nodes: Collection[str], table: str, attempts: Sequence[Attempt]) -> str:
    """Describe where the queries of a load were killed, and what the table holds now.

    :param nodes: as for :func:`describe_end`.
    :param attempts: those of this generation of the task, as read from the ledger after the kill; none if the load
        was not staged, or had not begun.
    """
    if attempts:
        found = _describe_commit(table, attempts)
    elif nodes:
        found = f"rows that it had written stay in {table} (staging=False)"
    else:
        found = "nothing had been staged"
    return f"{describe_end(nodes)}; {found}"


def _describe_commit(table: str, attempts: Sequence[Attempt]) -> str:
    if any(attempt.is_broken for attempt in attempts):
        return f"its commit had begun and cannot be finished: {table} may hold some of its rows"
    committed = [attempt for attempt in attempts if attempt.state is EventKind.COMMITTED]
    if committed and chunk_of(committed[-1]).is_last:
        return f"its commit had begun and was finished: {table} holds all of its rows"
    if committed:
        return f"{table} holds the rows of its first chunks ({len(committed):,} committed)"
    return f"{table} was not changed"
