"""What the new owner of a lock does with those of owners that count as dead."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.timing import REAL_TIME
from airflow_provider_ch_s3.exactly_once.history import History
from airflow_provider_ch_s3.exactly_once.lock import HeldLock, Lock
from airflow_provider_ch_s3.exactly_once.lock_tables import LockEntry, LockTable
from airflow_provider_ch_s3.table.target import TableName


class Nodes:
    """Records what is dropped where."""

    reachable = frozenset({"n1", "n2", "n3"})

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def execute_on(self, nodes: list[str], statement: Statement) -> None:
        self.dropped += nodes


class Of:
    """The ledger and the staging tables, as far as a lock names them."""

    target = TableName(database="d", table="t")
    database = "d"


def entry(load_id: str) -> LockEntry:
    return LockEntry(load_id=load_id, generation=0, try_number=1, attempt=0, token=load_id)


def test_a_lock_that_each_node_of_a_replicated_database_shows_is_taken_over_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes, of = Nodes(), cast(Any, Of())
    lock = Lock(
        client=cast(ClickHouseClient, nodes),
        ledger=of,
        staging=of,
        identity=cast(Any, None),
        node="n1",
        token="mine",
        timing=REAL_TIME,
    )
    overtaken = [
        *(LockTable(number=7, node=node, entry=entry("ch-s3-one")) for node in ("n1", "n2", "n3")),
        LockTable(number=8, node="n1", entry=entry("ch-s3-two")),
    ]
    held = HeldLock(epoch=9, entry=entry("mine"), history=History(events=()), staged={}, overtaken=overtaken)
    with caplog.at_level(logging.WARNING):
        lock.drop_overtaken(held)
    assert [record.getMessage() for record in caplog.records] == [
        "taking over the lock of d.t of epoch 7 from ch-s3-one-0-0-",
        "taking over the lock of d.t of epoch 8 from ch-s3-two-0-0-",
    ]
    assert nodes.dropped == ["n1", "n2", "n3", "n1"]
