"""Delete old records from a ledger; the versions of files in a table remain known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.exactly_once.ledger import files_name
from airflow_provider_ch_s3.reporting.view import LedgerView
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.table.target import parse_table

DAY_SECONDS = 24 * 3600

Keys = set[tuple[str, int]]
"""Attempts of a target: the id of the load, and the number of each attempt."""


def prune(view: LedgerView, older_than_days: float) -> int:
    """Delete old, ended attempts whose rows no table holds any more; return the number of deleted attempts.

    For all further old attempts only the details are deleted.

    :raises ConfigError: if the ledger does not exist.
    """
    before = time.time() - older_than_days * DAY_SECONDS
    locks = {row["target"]: row for row in view.query(ledger_queries.render_read_last_locks)}
    ended = view.query(ledger_queries.render_read_ended_attempts, before_seconds=before)
    living = view.living({uuid for row in ended for uuid in row["uuids"]})
    count = 0
    for target, of_target in groupby(ended, key=lambda row: str(row["target"])):
        rows = list(of_target)
        attempts = {(row["load_id"], row["attempt"]) for row in rows}
        committed = {uuid for row in rows for uuid in row["uuids"]}
        for some in batches(sorted(attempts - _holders(view, target, attempts, living & committed))):
            _forget(view, target, some, last_epoch=locks[target]["last_epoch"])
            count += len(some)
    for target, lock in locks.items():
        about = {"target": target, "before_seconds": before}
        view.execute(ledger_queries.render_prune_locks, last_epoch=lock["last_epoch"], **about)
        view.execute(ledger_queries.render_forget_details, first_open=lock["first_open"], **about)
    return count


def _holders(view: LedgerView, target: str, attempts: Keys, living: set[str]) -> Keys:
    """Find the attempts with rows in an existing table, whatever the table's present name."""
    numbers, name = {number for _, number in attempts}, parse_table(target, "")
    # Table by table: rows replaced in one table may still be held by another.
    return {key for uuid in living for key in view.holdings(name, [uuid]).holding(numbers)}


def _forget(view: LedgerView, target: str, attempts: Sequence[tuple[str, int]], *, last_epoch: int) -> None:
    """Delete the ending event of an attempt last: without this event, the attempt would look unfinished."""
    about: dict[str, Any] = {"target": target, "attempts": attempts}
    render_files = partial(ledger_queries.render_prune_ledger_files, files_name(view.ledger), **about)
    view.client.execute_everywhere(render_files)
    for is_last in (False, True):
        view.execute(ledger_queries.render_prune_ledger, last_epoch=last_epoch, is_last=is_last, **about)
