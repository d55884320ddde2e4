"""The ledger: two append-only tables in ClickHouse that record what every load did.

It is written on the connected node and read from all nodes, so that it does not matter which node is connected. A
lost response does no harm: every row is a fact that may be written twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import REPLICATED_DATABASES
from airflow_provider_ch_s3.common.codec import SCHEMA_VERSION
from airflow_provider_ch_s3.common.seal import Login
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, ServerError, TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, Event, EventKind, History
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.table.target import TableName, has_replicas, parse_table

DEFAULT_LEDGER = "ch_s3_ledger"
NO_UUID = "00000000-0000-0000-0000-000000000000"
"""Of every table in a database that is not Atomic: it tells no table from another."""
_NAMED = "named"
"""The event of a row that has a name of the table with the UUID that is its target."""
_COMMENT = "airflow-provider-ch-s3: what its loads did, schema "
_FILES_SUFFIX = "_files"
MAX_LEDGERS = 1_000
_SEALED = (EventKind.PLANNED, EventKind.COMMITTING)
"""What later processes act upon."""
_COLUMN = re.compile(
    r"^    (?!INDEX )(?P<name>\w+) (?P<type>.+?)(?: DEFAULT (?P<default>.+?))?"
    r"(?: COMMENT '[^']*')?(?: CODEC\(\w+\))?,?$",
    re.MULTILINE,
)
"""A column in a statement that creates a table of the ledger."""

# A statement takes about 1 kB of a worker's memory for each file, its result half of that.
FILES_PER_STATEMENT = 10_000
# Epochs that a search for earlier loads goes back; a load takes two, one to plan and one to commit.
RECENT_EPOCHS = 2_000


def ledger_name(text: str | None, database: str) -> TableName:
    """Parse the ledger's name from the connection; its database defaults to the given one."""
    return parse_table(text or DEFAULT_LEDGER, database)


def files_name(ledger: TableName) -> TableName:
    """Name of the table of manifests that belongs to a table of events."""
    return TableName(database=ledger.database, table=f"{ledger.table}{_FILES_SUFFIX}")


def find_ledgers(client: ClickHouseClient, cluster: str | None) -> dict[TableName, str]:
    """Find the ledgers that the connection's user may see, each with its comment.

    Whoever may create a table can give it a ledger's comment. So a ledger is a pair of MergeTree tables with the
    columns of a ledger, on every node that has them: a view, or a column that is computed when it is read, would read
    other tables with the rights of this user. Those of later versions are for :func:`check_schema` to refuse.
    """
    rows = client.query(ledger_queries.render_find_ledgers(_COMMENT, cluster, limit=2 * MAX_LEDGERS))
    tables = {
        TableName(database=row["database"], table=row["name"]): row["comments"][0]
        for row in rows
        if all(engine.endswith("MergeTree") for engine in row["engines"]) and len(row["comments"]) == 1
    }
    ledgers = {name: comment for name, comment in tables.items() if files_name(name) in tables}
    if not ledgers:
        return {}
    expected = {
        table: _columns_of(render(table, None, comment="", is_replicated=False))
        for name in ledgers
        for table, render in _renderers(name).items()
    }
    found = {
        TableName(database=row["database"], table=row["table"]): [
            [tuple(one) for one in some] for some in row["columns"]
        ]
        for row in client.query(ledger_queries.render_read_ledger_columns(sorted(expected, key=str), cluster))
    }
    sound = {table for table, columns in expected.items() if found.get(table) == [columns]}
    return {
        name: comment
        for name, comment in ledgers.items()
        if {name, files_name(name)} <= sound or _version_of(comment) > SCHEMA_VERSION
    }


def _renderers(ledger: TableName) -> dict[TableName, Callable[..., Statement]]:
    """What renders the statement that creates each of the two tables."""
    return {
        ledger: ledger_queries.render_create_ledger,
        files_name(ledger): ledger_queries.render_create_ledger_files,
    }


def _columns_of(create: Statement) -> list[tuple[str, str, str, str]]:
    """The columns of a table, as ``system.columns`` will have them: name, type, kind of default, default."""
    return [
        (found["name"], found["type"], "DEFAULT" if found["default"] else "", found["default"] or "")
        for found in _COLUMN.finditer(create.text)
    ]


def read_uuids(client: ClickHouseClient, table: TableName, cluster: str | None) -> set[str]:
    """Read the UUIDs of a table on all nodes."""
    rows = client.query(ledger_queries.render_read_tables(table.database, [table.table], cluster))
    return {row["uuid"] for row in rows if row["name"] == table.table}


@dataclass(kw_only=True)
class Ledger:
    """The ledger of one target, written by all its loads.

    :param name: of the table of events; the name of the table of files is the same with ``_files`` at its end.
    :param target: the local table, ``database.table``.
    :param table_uuids: its UUIDs on all nodes.
    :param load_id: the load that reads and writes it.
    :param database_engine: of the ledger's database; '' if there is no such database.
    :param is_replicated: the target is replicated, so there is Keeper, and no record may be lost with a node.
    :param quorum: number of replicas that must have a row before it counts as written.
    :param login: seals the plans that it writes, and tells which of those it reads may be carried out.
    """

    client: ClickHouseClient
    cluster: str | None
    name: TableName
    target: TableName
    load_id: str
    table_uuids: Sequence[str] = ()
    database_engine: str = ""
    is_replicated: bool = False
    quorum: int = 0
    login: Login = field(default_factory=Login)
    _seen: History | None = field(default=None, init=False)

    @property
    def files_name(self) -> TableName:
        return files_name(self.name)

    def open(self, nodes: Collection[str]) -> None:
        """Create the tables on every node that does not have them yet.

        :param nodes: names of all nodes.
        :raises ChS3Error: as :meth:`check`.
        """
        found = self.check()
        for table, renderer in _renderers(self.name).items():
            if not set(nodes) <= {row["node"] for row in found if row["name"] == table.table}:
                render = partial(
                    renderer,
                    table,
                    comment=f"{_COMMENT}{SCHEMA_VERSION}",
                    is_replicated=self.is_replicated or self.database_engine in REPLICATED_DATABASES,
                )
                self.client.execute_everywhere(render)

    def check(self) -> list[dict[str, Any]]:
        """Check that the tables are a ledger, or can become one; returns what the nodes have of them, a row for each.

        :raises TargetError: if one of them is another table.
        :raises ConfigError: if the database is missing, a later version of this package created the tables, or they
            are not replicated although the target is.
        """
        found = self.client.query(
            ledger_queries.render_read_ledger_comments((self.name, self.files_name), self.cluster)
        )
        for row in found:
            check_schema(self.name, row["name"], row["comment"])
            if not row["engine"].endswith("MergeTree"):  # a view would read other tables with this user's rights
                raise TargetError(
                    f"the ledger {self.name.database}.{row['name']} is a {row['engine']} on {row['node']}; find out"
                    " who created it, and drop it, or name another table in the connection's field ledger_table"
                )
            if self.quorum > 1 and not has_replicas(row["engine"]):
                raise ConfigError(
                    f"the ledger {self.name.database}.{row['name']} is not replicated ({row['engine']} on"
                    f" {row['node']}), but {self.target} is: a lost disk would take the record of its loads with it;"
                    " load replicated tables through a connection of their own, with another ledger_table, which"
                    " begins empty: a table that was loaded before is first loaded in a mode that replaces"
                )
        if not self.database_engine:
            raise ConfigError(
                f"cannot create the ledger {self.name}: there is no database {self.name.database!r}; create it, or"
                " correct the connection's field ledger_table"
            )
        return found

    def read(self, attempts: Set[int] = frozenset()) -> History:
        """Read the events of this load and of all attempts that may be open: not those of years of finished loads.

        Events are facts that stay, so those of attempts that were closed before are not read a second time.

        :param attempts: numbers of further attempts.
        """
        seen = self._seen or History(events=())
        rows = self.look_up(
            ledger_queries.render_read_events,
            load_id=self.load_id,
            table_uuids=_distinguishing(self.table_uuids),
            attempts=attempts,
            since=seen.since,
        )
        events = [self._parse(row) for row in rows if row["event"] != _NAMED]
        names = sorted({row["name"] for row in rows if row["event"] == _NAMED})
        self._seen = seen.renewed(events, names, attempts)
        return self._seen

    @property
    def last_epoch(self) -> int:
        """The last epoch that had begun when the ledger was read; 0 if it was not, or none had."""
        return self._seen.epoch if self._seen else 0

    def look_up(self, render: Callable[..., Statement], **what: object) -> list[dict[str, Any]]:
        """Query the table of events about the target."""
        return self.client.query(render(self.name, self.cluster, target=str(self.target), **what))

    def read_if_there(self) -> History:
        """Read the same; no events if no load of the cluster has created the ledger on all of its nodes yet."""
        try:
            return self.read()
        except ServerError as error:
            # The second is what a server answers whose peer lacks the table.
            if error.code not in (ErrorCode.UNKNOWN_TABLE, ErrorCode.ALL_CONNECTION_TRIES_FAILED):
                raise
            return History(events=())

    def write(
        self,
        kind: EventKind,
        attempt: AttemptId,
        *,
        epoch: int,
        try_number: int,
        detail: Mapping[str, Any] | None = None,
        first_open: int = 0,
    ) -> Event:
        """Append one event.

        :param first_open: for ``LOCKED``, the number of the first attempt that is open.
        :returns: the event as it will be read, but without its time, which the server adds.
        """
        if kind in _SEALED:
            detail = self.login.sealed(detail or {}, *self._identity_of(kind, attempt, epoch))
        row = {
            "target": str(self.target),
            "load_id": attempt.load_id,
            "generation": attempt.generation,
            "attempt": attempt.number,
            "epoch": epoch,
            "event": kind.value,
            "try_number": try_number,
            "first_open": first_open,
            "detail": json.dumps(detail or {}),
            **(_looked_up(detail) if kind in (EventKind.COMMITTED, EventKind.UNDONE) and detail else {}),
        }
        # A heartbeat only matters to those who read the ledger now.
        quorum = 0 if kind is EventKind.ALIVE else self.quorum
        self.client.execute(ledger_queries.render_write_event(self.name, row, quorum=quorum))
        return self._parse({**row, "time_seconds": 0.0, "age_seconds": 0.0})

    def _parse(self, row: Mapping[str, Any]) -> Event:
        """Parse an event of the target, and find out who wrote it where that matters."""
        event = parse_event(row)
        if event.kind not in _SEALED:
            return event
        identity = self._identity_of(event.kind, event.attempt, event.epoch)
        return replace(event, is_sealed=self.login.has_sealed(event.detail, *identity))

    def _identity_of(self, kind: EventKind, attempt: AttemptId, epoch: int) -> tuple[Any, ...]:
        return str(self.target), *attempt.key, attempt.generation, epoch, kind.value

    def claim(self) -> None:
        """Have other loads that are planned now count this one."""
        self.client.execute(ledger_queries.render_write_claim(self.name, self.load_id))

    def write_files(self, attempt: AttemptId, files: Sequence[SourceFile], pattern: SourcePattern) -> None:
        """Append the manifest of an attempt."""
        for some in batches(files, FILES_PER_STATEMENT):
            rows = (
                {
                    "target": str(self.target),
                    "path": pattern.path(file.key),
                    "etag": file.etag,
                    "size_bytes": file.size_bytes,
                    "load_id": attempt.load_id,
                    "attempt": attempt.number,
                }
                for file in some
            )
            self.client.execute(ledger_queries.render_write_files(self.files_name, list(rows), quorum=self.quorum))

    def read_manifest(self, attempt: AttemptId) -> dict[str, str]:
        """Read the files of an attempt: path → ETag."""
        manifest: dict[str, str] = {}
        while True:
            rows = self._read_attempt_files(
                attempt.key, after=next(reversed(manifest), ""), limit=FILES_PER_STATEMENT
            )
            manifest |= ((row["path"], row["etag"]) for row in rows)
            if len(rows) < FILES_PER_STATEMENT:
                return manifest
            del rows  # before the next ones arrive

    def read_first_path(self, attempt: tuple[str, int]) -> str:
        """Read the first file of an attempt; '' if nothing is recorded of its files.

        :param attempt: its key.
        """
        return next((row["path"] for row in self._read_attempt_files(attempt, after="", limit=1)), "")

    def _read_attempt_files(self, attempt: tuple[str, int], *, after: str, limit: int) -> list[dict[str, Any]]:
        render, files = ledger_queries.render_read_attempt_files, self.files_name
        target = str(self.target)
        return self.client.query(
            render(files, self.cluster, target=target, attempt=attempt, after=after, limit=limit)
        )

    def of(self, target: TableName) -> Ledger:
        """The same ledger, of the table under another name."""
        return replace(self, target=target)

    @property
    def names(self) -> Sequence[str]:
        """The names under which the table was loaded, when the ledger was last read; none if it is not known."""
        return (self._seen or self.read()).names

    @property
    def earlier_names(self) -> list[TableName]:
        """The ones that it no longer has."""
        return [parse_table(name, "") for name in self.names if name != str(self.target)]

    def read_earlier(self) -> list[tuple[TableName, History]]:
        """Read, for each of those, what may be open there."""
        return [(name, self.of(name).read()) for name in self.earlier_names]

    def read_epoch(self) -> int:
        """Read the last epoch that has begun, under whatever name of the table."""
        return max(history.epoch for history in (self.read(), *(earlier for _, earlier in self.read_earlier())))

    def write_names(self, others: Collection[str] = ()) -> None:
        """Record that the table was loaded under the target's name, unless that is known; and under others."""
        names = sorted({str(self.target), *others} - set(self.names))
        rows = [
            {"target": uuid, "event": _NAMED, "name": name}
            for uuid in _distinguishing(self.table_uuids)
            for name in names
        ]
        if rows:
            self.client.execute(ledger_queries.render_write_names(self.name, rows, quorum=self.quorum))

    def read_earlier_uuids(self) -> list[str]:
        """Read the UUIDs of the table into which the last load under the target's name went; none if none did."""
        rows = self.look_up(ledger_queries.render_read_earlier_uuids)
        return list(rows[0]["table_uuids"]) if rows else []

    def read_files(
        self, targets: Sequence[str], first: str, last: str, *, only: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Read which attempts were to load which versions of files: rows of path, etag, load_id, attempt.

        :param targets: names that the table had.
        :param first: path from which on files are read, up to ``last``.
        :param only: of these, a few; none for all.
        """
        render = ledger_queries.render_read_loaded_files
        return self.client.query(
            render(self.files_name, self.cluster, targets=targets, first=first, last=last, only=only)
        )

    def read_last_paths(self, prefix: str, *, before: str, limit: int) -> list[str]:
        """Read the last paths that begin with ``prefix`` of the files that any attempt was to load, last one first.

        :param before: only paths before this one; '' for all.
        """
        statement = ledger_queries.render_read_last_files(
            self.files_name, self.cluster, target=str(self.target), prefix=prefix, before=before, limit=limit
        )
        return [row["path"] for row in self.client.query(statement)]


def _distinguishing(table_uuids: Collection[str]) -> list[str]:
    return sorted(set(table_uuids) - {NO_UUID})


def _looked_up(detail: Mapping[str, Any]) -> dict[str, Any]:
    """What other loads look up of a commit: these columns stay when the details are forgotten."""
    report = detail.get("report", {})
    return {
        **{name: detail[name] for name in ("table_uuids", "load_mode", "partitions")},
        **{name: report[name] for name in ("data_format", "volume_bytes") if name in report},
    }


def _version_of(comment: str) -> int:
    """The version of the schema that a comment names; 0 if it is not that of a ledger. The first version is 1."""
    match = re.fullmatch(rf"{re.escape(_COMMENT)}([1-9][0-9]{{0,8}})", comment)
    return int(match[1]) if match else 0


def check_schema(ledger: TableName, name: str, comment: str) -> None:
    """Check that a table is a ledger that this version can read.

    :raises TargetError: if it is not a ledger.
    :raises ConfigError: if a later version of this package created it, and this one cannot read it.
    """
    version = _version_of(comment)
    if not version:
        raise TargetError(
            f"{ledger.database}.{name} is not a ledger of this package; rename it, or name another table in the"
            " connection's field ledger_table"
        )
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"{ledger.database}.{name} has schema {version}, and this version of airflow-provider-ch-s3 supports"
            f" up to {SCHEMA_VERSION}; upgrade it on this worker"
        )


def parse_event(row: Mapping[str, Any]) -> Event:
    """Parse one row of the ledger."""
    return Event(
        kind=EventKind.parse(row["event"]),
        attempt=AttemptId(load_id=row["load_id"], generation=row["generation"], number=row["attempt"]),
        epoch=row["epoch"],
        try_number=row["try_number"],
        detail=json.loads(row["detail"] or "{}"),
        time=row["time_seconds"],
        age_seconds=row["age_seconds"],
    )
