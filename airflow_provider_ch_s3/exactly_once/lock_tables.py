"""The tables of a lock: empty, with a number at the end of the name, and a comment to say who made a table, and why.

ClickHouse has no compare-and-set, but when two processes create the same table on a node, one of them fails.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.errors import ErrorCode, OvertakenError, ServerError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.table.target import TableName


@dataclass(frozen=True, kw_only=True)
class LockEntry:
    """Who has a lock or waits for it, and for what; stored in the comment of a table.

    :param attempt: number of the attempt to be committed or abandoned; 0 while there is none.
    :param token: identifies the process.
    :param since: when the DAG run of the process began (Unix time).
    :param name: the task and its run, for messages.
    """

    load_id: str
    generation: int
    try_number: int
    attempt: int
    token: str
    since: float = 0.0
    name: str = ""

    @property
    def attempt_id(self) -> AttemptId:
        return AttemptId(load_id=self.load_id, generation=self.generation, number=self.attempt)

    @property
    def rank(self) -> tuple[float, int]:
        """The same as :attr:`LoadIdentity.rank`."""
        return self.since, self.try_number

    def outranks(self, other: LockEntry, target: TableName) -> bool:
        """Whether an entry is this process's own, or the entry of an older process of the same load.

        :raises OvertakenError: if a newer process of the load made the entry.
        """
        if other.load_id != self.load_id:
            return False
        if other.rank > self.rank:
            raise OvertakenError(
                "newer-try-runs",
                f"try {other.try_number} of this task has taken over the load into {target}; stopping try"
                f" {self.try_number}, no action needed",
            )
        return other.rank < self.rank or other.token == self.token


def parse_lock_entry(comment: str) -> LockEntry:
    """Parse the comment of a table; an unidentified process belongs to another load, alive or dead."""
    return decode(LockEntry, json.loads(comment), load_id="", generation=0, try_number=0, attempt=0, token="")


@dataclass(frozen=True, kw_only=True, order=True)
class LockTable:
    """A table with an entry in the comment.

    :param number: at the end of the table's name.
    """

    number: int
    node: str
    entry: LockEntry = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class LockTables:
    """Tables of one kind: the names differ only in a number.

    :param node: the node on which the tables are created.
    """

    client: ClickHouseClient
    node: str
    database: str
    prefix: str

    def parse(self, rows: Iterable[Mapping[str, Any]]) -> list[LockTable]:
        """Parse what ``read_tables`` has found; sorted by number."""
        return sorted(
            LockTable(
                number=int(row["name"].removeprefix(self.prefix)),
                node=row["node"],
                entry=parse_lock_entry(row["comment"]),
            )
            for row in rows
            if row["name"].startswith(self.prefix)
        )

    def create(self, number: int, entry: LockEntry) -> bool:
        """Create a table; return False if the table exists already.

        :raises ServerError: if the table cannot be created.
        """
        statement = ledger_queries.render_create_lock(self._name(number), owner=json.dumps(dataclasses.asdict(entry)))
        try:
            self.client.execute_on([self.node], statement)
        except ServerError as error:
            if error.server_code == ErrorCode.TABLE_ALREADY_EXISTS:
                return False
            raise
        return True

    def drop(self, number: int, node: str = "") -> bool:
        """Drop a table; return False if the table was gone already.

        :param node: the node with the table; by default, the node on which the tables are created.
        :raises ServerError: if the table cannot be dropped.
        """
        # A Replicated database has it on every node, and drops it on all of them through any.
        chosen = node if node in self.client.reachable else self.node
        try:
            self.client.execute_on([chosen], ledger_queries.render_drop_lock(self._name(number)))
        except ServerError as error:
            if error.server_code == ErrorCode.UNKNOWN_TABLE:
                return False
            raise
        return True

    def _name(self, number: int) -> TableName:
        return TableName(database=self.database, table=f"{self.prefix}{number}")
