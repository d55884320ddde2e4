"""The ledger: two append-only tables in ClickHouse that record what every load did.

Loads write the ledger on the connected node, and read the ledger from all nodes, so any node may be the connected
node. A lost response does no harm: every row is a fact, and may be written twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import REPLICATED_DATABASES
from airflow_provider_ch_s3.common.seal import Login
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import ConfigError, ErrorCode, ServerError, TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, Event, EventKind, History
from airflow_provider_ch_s3.exactly_once.records import SCHEMA_VERSION, Committed, Detail
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.sql import ledger_queries
from airflow_provider_ch_s3.table.target import TableName, has_replicas, is_merge_tree, parse_table

DEFAULT_LEDGER = "ch_s3_ledger"
NO_UUID = "00000000-0000-0000-0000-000000000000"
"""The UUID of every table outside of Atomic databases: no table can be told from another by this UUID."""
_NAMED = "named"
"""The event of a row with a name of a table; the row's target is the UUID of the table."""
_COMMENT = "airflow-provider-ch-s3: what its loads did, schema "
_FILES_SUFFIX = "_files"
MAX_LEDGERS = 1_000
_SEALED = (EventKind.PLANNED, EventKind.HELD, EventKind.COMMITTING)
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
    """Parse the ledger's name from the connection; the given database is the default."""
    return parse_table(text or DEFAULT_LEDGER, database)


def files_name(ledger: TableName) -> TableName:
    """Name of the table of manifests for a table of events."""
    return TableName(database=ledger.database, table=f"{ledger.table}{_FILES_SUFFIX}")


def find_ledgers(client: ClickHouseClient, cluster: str | None) -> dict[TableName, str]:
    """Find the ledgers visible to the connection's user: name → comment.

    Any user with the right to create tables can give a table a ledger's comment. So a ledger is a pair of MergeTree
    tables with the columns of a ledger, on every node with these tables: a view, or a column computed during the
    read, would read other tables with the rights of this user. :func:`check_schema` refuses ledgers of later
    versions.
    """
    rows = client.query(ledger_queries.render_find_ledgers(_COMMENT, cluster, limit=2 * MAX_LEDGERS))
    tables = {
        TableName(database=row["database"], table=row["name"]): row["comments"][0]
        for row in rows
        if all(map(is_merge_tree, row["engines"])) and len(row["comments"]) == 1
    }
    ledgers = {name: comment for name, comment in tables.items() if files_name(name) in tables}
    if not ledgers:
        return {}
    expected = {
        table: columns_of(render(table, None, comment="", is_replicated=False))
        for name in ledgers
        for table, render in renderers(name).items()
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


def renderers(ledger: TableName) -> dict[TableName, Callable[..., Statement]]:
    """The functions that render the CREATE statements of the two tables."""
    return {
        ledger: ledger_queries.render_create_ledger,
        files_name(ledger): ledger_queries.render_create_ledger_files,
    }


def columns_of(create: Statement) -> list[tuple[str, str, str, str]]:
    """The columns of a table, as in ``system.columns``: name, type, kind of default, default."""
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
    """The ledger of one target, written by all loads of the target.

    :param name: of the table of events; the table of files has the same name with ``_files`` at the end.
    :param target: the local table, ``database.table``.
    :param table_uuids: the table's UUIDs on all nodes.
    :param load_id: the load that reads and writes the ledger.
    :param database_engine: of the ledger's database; '' if there is no such database.
    :param is_replicated: the target is replicated, so there is Keeper, and no record may be lost with a node.
    :param quorum: number of replicas that must have a row before the row counts as written.
    :param login: seals the plans that this process writes, and shows which plans from the ledger may be carried out.
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
        """Create the tables on every node without them.

        :param nodes: names of all nodes.
        :raises ChS3Error: as :meth:`check`.
        """
        found = self.check()
        for table, renderer in renderers(self.name).items():
            if not set(nodes) <= {row["node"] for row in found if row["name"] == table.table}:
                render = partial(
                    renderer,
                    table,
                    comment=f"{_COMMENT}{SCHEMA_VERSION}",
                    is_replicated=self.is_replicated or self.database_engine in REPLICATED_DATABASES,
                )
                self.client.execute_everywhere(render)

    def check(self) -> list[dict[str, Any]]:
        """Check that the tables are a ledger, or can become a ledger; return a row for each table on each node.

        :raises TargetError: if a table does not belong to a ledger.
        :raises ConfigError: if the database is missing, a later version of this package created the tables, or they
            are not replicated although the target is.
        """
        found = self.client.query(
            ledger_queries.render_read_ledger_comments((self.name, self.files_name), self.cluster)
        )
        for row in found:
            check_schema(self.name, row["name"], row["comment"])
            if not is_merge_tree(row["engine"]):  # a view would read other tables with this user's rights
                raise TargetError(
                    "ledger-wrong-table",
                    f"the ledger {self.name.database}.{row['name']} is a {row['engine']} on {row['node']}; find out"
                    " who created it, and drop it, or name another table in the connection's field ledger_table",
                )
            if self.quorum > 1 and not has_replicas(row["engine"]):
                raise ConfigError(
                    "ledger-not-replicated",
                    f"the ledger {self.name.database}.{row['name']} is not replicated ({row['engine']} on"
                    f" {row['node']}), but {self.target} is: a lost disk would take the record of its loads with it;"
                    " load replicated tables through a connection of their own, with another ledger_table, which"
                    " begins empty: a table that was loaded before is first loaded in a mode that replaces",
                )
        if not self.database_engine:
            raise ConfigError(
                "ledger-missing",
                f"cannot create the ledger {self.name}: there is no database {self.name.database!r}; create it, or"
                " correct the connection's field ledger_table",
            )
        return found

    def read(self, attempts: Set[int] = frozenset()) -> History:
        """Read the events of this load and of all attempts that may be open, but not of years of finished loads.

        Events are facts that stay, so events of closed attempts are not read a second time.

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
        """The last epoch when the ledger was read; 0 if the ledger was not read, or had no epoch."""
        return self._seen.epoch if self._seen else 0

    def look_up(self, render: Callable[..., Statement], **what: object) -> list[dict[str, Any]]:
        """Query the table of events about the target."""
        return self.client.query(render(self.name, self.cluster, target=str(self.target), **what))

    def read_if_there(self) -> History:
        """Read the same; no events if no load of the cluster has created the ledger on all nodes yet."""
        try:
            return self.read()
        except ServerError as error:
            # The second is what a server answers whose peer lacks the table.
            if error.server_code not in (ErrorCode.UNKNOWN_TABLE, ErrorCode.ALL_CONNECTION_TRIES_FAILED):
                raise
            return History(events=())

    def write(
        self,
        kind: EventKind,
        attempt: AttemptId,
        detail: Detail,
        *,
        epoch: int,
        try_number: int,
        first_open: int = 0,
    ) -> Event:
        """Append an event.

        :param first_open: for ``LOCKED``, the number of the first open attempt.
        :returns: the event as a reader will get it, but without the time: the server adds the time.
        """
        written = asdict(detail)
        if kind in _SEALED:
            written = self.login.sealed(written, *self._identity_of(kind, attempt, epoch))
        row = {
            "target": str(self.target),
            "load_id": attempt.load_id,
            "generation": attempt.generation,
            "attempt": attempt.number,
            "epoch": epoch,
            "event": kind.value,
            "try_number": try_number,
            "first_open": first_open,
            "detail": json.dumps(written),
            **(_looked_up(detail) if isinstance(detail, Committed) else {}),
        }
        # A heartbeat only matters to those who read the ledger now, and no load acts upon a failure.
        quorum = 0 if kind in (EventKind.ALIVE, EventKind.FAILED) else self.quorum
        self.client.execute(ledger_queries.render_write_event(self.name, row, quorum=quorum))
        return self._parse({**row, "time_seconds": 0.0, "age_seconds": 0.0})

    def _parse(self, row: Mapping[str, Any]) -> Event:
        """Parse an event of the target, and find out who wrote the event where the writer matters."""
        event = parse_event(row)
        if event.kind not in _SEALED:
            return event
        identity = self._identity_of(event.kind, event.attempt, event.epoch)
        return replace(event, is_sealed=self.login.has_sealed(event.detail, *identity))

    def _identity_of(self, kind: EventKind, attempt: AttemptId, epoch: int) -> tuple[Any, ...]:
        return str(self.target), *attempt.key, attempt.generation, epoch, kind.value

    def announce(self) -> None:
        """Have all loads planned at the same time count this load."""
        self.client.execute(ledger_queries.render_write_announcement(self.name, self.load_id))

    def write_files(self, attempt: AttemptId, files: Sequence[SourceFile], source: Source) -> None:
        """Append the manifest of an attempt."""
        for some in batches(files, FILES_PER_STATEMENT):
            rows = (
                {
                    "target": str(self.target),
                    "path": source.path(file.key),
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

    def count_by_folder(self, attempts: Sequence[AttemptId], *, limit: int) -> dict[str, int]:
        """Count the files of attempts: path of a folder, with a slash → files.

        :param limit: of folders; the folders with the most files.
        """
        keys = [attempt.key for attempt in attempts]
        statement = ledger_queries.render_count_by_folder(
            self.files_name, self.cluster, target=str(self.target), attempts=keys, limit=limit
        )
        return {row["folder"]: row["files"] for row in self.client.query(statement)}

    def read_first_path(self, attempt: tuple[str, int]) -> str:
        """Read the first file of an attempt; '' if no files are recorded.

        :param attempt: the attempt's key.
        """
        return next((row["path"] for row in self._read_attempt_files(attempt, after="", limit=1)), "")

    def _read_attempt_files(self, attempt: tuple[str, int], *, after: str, limit: int) -> list[dict[str, Any]]:
        render, files = ledger_queries.render_read_attempt_files, self.files_name
        target = str(self.target)
        return self.client.query(
            render(files, self.cluster, target=target, attempt=attempt, after=after, limit=limit)
        )

    def of(self, target: TableName) -> Ledger:
        """The same ledger, for the table under another name."""
        return replace(self, target=target)

    @property
    def names(self) -> Sequence[str]:
        """The names under which the table was loaded, as of the last read; none if the table is not known."""
        return (self._seen or self.read()).names

    @property
    def earlier_names(self) -> list[TableName]:
        """The names that the table no longer has."""
        return [parse_table(name, "") for name in self.names if name != str(self.target)]

    def read_earlier(self) -> list[tuple[TableName, History]]:
        """Read, for each earlier name, what may be open there."""
        return [(name, self.of(name).read()) for name in self.earlier_names]

    def read_epoch(self) -> int:
        """Read the last epoch, under any name of the table."""
        return max(history.epoch for history in (self.read(), *(earlier for _, earlier in self.read_earlier())))

    def write_names(self, others: Collection[str] = ()) -> None:
        """Record that the table was loaded under the target's name, and under others, unless known already."""
        names = sorted({str(self.target), *others} - set(self.names))
        rows = [
            {"target": uuid, "event": _NAMED, "name": name}
            for uuid in _distinguishing(self.table_uuids)
            for name in names
        ]
        if rows:
            self.client.execute(ledger_queries.render_write_names(self.name, rows, quorum=self.quorum))

    def read_last_commit(self) -> int:
        """Read the epoch of the last commit; 0 if there was no commit."""
        return int(self.look_up(ledger_queries.render_read_last_commit)[0]["epoch"])

    def read_earlier_uuids(self) -> list[str]:
        """Read the UUIDs of the table that the last load under the target's name went into; none without a load."""
        rows = self.look_up(ledger_queries.render_read_earlier_uuids)
        return list(rows[0]["table_uuids"]) if rows else []

    def read_files(
        self, targets: Sequence[str], first: str, last: str, *, only: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Read the planned files of attempts: rows of path, etag, load_id, attempt.

        :param targets: names that the table had.
        :param first: the first path to read; ``last``: the last path.
        :param only: a few paths in between; none for all.
        """
        render = ledger_queries.render_read_loaded_files
        return self.client.query(
            render(self.files_name, self.cluster, targets=targets, first=first, last=last, only=only)
        )

    def read_last_paths(self, prefix: str, *, before: str, limit: int) -> list[str]:
        """Read the last paths with a prefix, of files that any attempt was to load; the last path first.

        :param before: only paths before this path; '' for all.
        """
        statement = ledger_queries.render_read_last_files(
            self.files_name, self.cluster, target=str(self.target), prefix=prefix, before=before, limit=limit
        )
        return [row["path"] for row in self.client.query(statement)]


def _distinguishing(table_uuids: Collection[str]) -> list[str]:
    return sorted(set(table_uuids) - {NO_UUID})


def _looked_up(commit: Committed) -> dict[str, Any]:
    """What later loads look up of a commit: these columns stay when the details are pruned."""
    return {
        "table_uuids": commit.table_uuids,
        "load_mode": commit.load_mode,
        "partitions": commit.partitions,
        "data_format": commit.report.data_format,
        "volume_bytes": commit.report.volume_bytes,
    }


def _version_of(comment: str) -> int:
    """The version of the schema in a comment; 0 if the comment is not a ledger's. The first version is 1."""
    match = re.fullmatch(rf"{re.escape(_COMMENT)}([1-9][0-9]{{0,8}})", comment)
    return int(match[1]) if match else 0


def check_schema(ledger: TableName, name: str, comment: str) -> None:
    """Check that this version can read a ledger.

    :raises TargetError: if the table is not a ledger.
    :raises ConfigError: if a later version of this package created the ledger, and this version cannot read the
        schema.
    """
    version = _version_of(comment)
    if not version:
        raise TargetError(
            "ledger-wrong-table",
            f"{ledger.database}.{name} is not a ledger of this package; rename it, or name another table in the"
            " connection's field ledger_table",
        )
    if version > SCHEMA_VERSION:
        raise ConfigError(
            "provider-version-differs",
            f"{ledger.database}.{name} has schema {version}, and this version of airflow-provider-ch-s3 supports"
            f" up to {SCHEMA_VERSION}; upgrade it on this worker",
        )


def parse_event(row: Mapping[str, Any]) -> Event:
    """Parse a row of the ledger."""
    return Event(
        kind=EventKind.parse(row["event"]),
        attempt=AttemptId.of_row(row),
        epoch=row["epoch"],
        try_number=row["try_number"],
        detail=json.loads(row["detail"] or "{}"),
        time=row["time_seconds"],
        age_seconds=row["age_seconds"],
    )
