"""Check what a load needs, step by step: for ``ch-s3 doctor``, and for the connection's button Test Connection.

Each check returns what it found in a sentence, or raises the error with which a load would fail, remedy included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby, islice

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_estimate, format_seconds, show_version
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.errors import ChS3Error, ClusterError, ServerError, SourceError
from airflow_provider_ch_s3.exactly_once.ledger import Ledger, ledger_name
from airflow_provider_ch_s3.introspection.cluster import (
    ConnectedServer,
    check_reach,
    detect_cluster,
    read_memory,
    read_server,
)
from airflow_provider_ch_s3.load import checks, rights
from airflow_provider_ch_s3.load.arrivals import ReadyFiles
from airflow_provider_ch_s3.load.prepare import PreparedLoad
from airflow_provider_ch_s3.load.rights import Session, find_use, read_session
from airflow_provider_ch_s3.load.staged import StagedLoad
from airflow_provider_ch_s3.sql import load_queries, server_queries
from airflow_provider_ch_s3.sql.rights import About, Use
from airflow_provider_ch_s3.table.target import is_merge_tree

# Larger differences confuse whoever compares the logs of two nodes, and S3 refuses requests from 15 minutes on.
MAX_CLOCK_SECONDS = 60
MAX_LISTED = 1_000
COST_OF_POLLS = (
    "a watcher (NewFilesTrigger) would list all of them in each poll: see `ch-s3 docs events` for list_after_loaded"
    " and notifications"
)


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a check.

    :param check: name of the check.
    :param text: what was found, or what is wrong and what to do about it.
    :param code: of what is wrong; '' if nothing is.
    """

    check: str
    state: State
    text: str
    code: str = ""


class NotKnown(str):
    """The text of a check that could not run, or that the load does not need."""


@dataclass(kw_only=True)
class Subject:
    """What is examined: a connection, and perhaps a load.

    :param find_load: returns the load, not started yet.
    """

    client: ClickHouseClient
    declaration: ClusterDeclaration
    find_load: Callable[[], StagedLoad] | None = None

    @cached_property
    def session(self) -> Session:
        """The user, and what every user may know."""
        return read_session(self.client)

    @cached_property
    def use(self) -> Use:
        """What the load needs rights for."""
        of_load = (self.load.request, self.load.store) if self.find_load else ()
        return find_use(self.client, self.declaration, self.session, *of_load)

    @cached_property
    def server(self) -> ConnectedServer:
        """The server of the connection."""
        return read_server(self.client)

    @cached_property
    def cluster(self) -> ClusterSpec:
        """The nodes of the connection's cluster."""
        return detect_cluster(self.client, self.declaration, self.server)

    @cached_property
    def load(self) -> StagedLoad:
        """The load."""
        if self.find_load is None:
            raise ValueError("there is no load")
        return self.find_load()

    @property
    def is_staged(self) -> bool:
        """Whether the load, if there is one, stages and commits rows; otherwise nothing records what was loaded."""
        return self.find_load is None or self.load.request.mode.is_staged

    @cached_property
    def prepared(self) -> PreparedLoad:
        """The load, inspected and planned; nothing is written."""
        return self.load.preview()


@dataclass(frozen=True, kw_only=True)
class Check:
    """Something that a load needs.

    :param after: names of the checks that have to succeed before.
    """

    name: str
    run: Callable[[Subject], str]
    after: tuple[str, ...] = ()


def examine(subject: Subject, which: Iterable[Check]) -> Iterator[Finding]:
    """Run checks in their order; skip a check if a check that has to succeed before has failed."""
    missing: set[str] = set()
    for check in which:
        if lacking := [name for name in check.after if name in missing]:
            missing.add(check.name)
            yield Finding(check=check.name, state=State.SKIPPED, text=f"not checked without {' and '.join(lacking)}")
            continue
        try:
            found = check.run(subject)
            state = State.SKIPPED if isinstance(found, NotKnown) else State.OK
            finding = Finding(check=check.name, state=state, text=found)
        except ChS3Error as error:
            missing.add(check.name)
            finding = Finding(check=check.name, state=State.FAILED, text=str(error), code=error.code)
        yield finding


def check_connection(subject: Subject) -> str:
    """The server answers, and accepts the login."""
    return f"user {subject.session.user!r}, database {subject.session.database!r}"


def check_rights(subject: Subject) -> str:
    """The user has all rights that the load uses; ``plan`` and ``reading`` use the rights to read the files."""
    if not subject.session.can_check:
        return NotKnown("this version cannot tell; `ch-s3 doctor --grants` prints all rights that a load needs")
    rights.check_rights(subject.client, subject.use, {About.READING, About.ENGINE, About.TABLES})
    return "all that the load takes"


def check_nodes(subject: Subject) -> str:
    """Every node answers the connected node, and tells version, cores and memory."""
    spec, node = subject.cluster, subject.cluster.weakest
    version = show_version(spec.server_version)
    where = f"cluster {spec.name!r}" if spec.name else "one server without a cluster"
    found = (
        f"ClickHouse {version}, {where}: {count_of(spec.node_count, 'node')} with"
        f" {count_of(node.vcpus, 'vCPU')} ({spec.vcpus_origin.value}) and"
        f" {format_bytes(node.memory_bytes)} of memory ({spec.memory_origin.value}) each"
    )
    memory = read_memory(subject.client, spec.name)
    return "; ".join((found, *([f"memory: {_least_free(memory)}"] if memory else []), *spec.notes))


def check_clocks(subject: Subject) -> str:
    """The nodes agree about the time."""
    rows = subject.client.query(server_queries.render_read_clocks(subject.cluster.name))
    first, last = (choose(rows, key=lambda row: row["seconds"]) for choose in (min, max))
    apart = last["seconds"] - first["seconds"]
    if apart > MAX_CLOCK_SECONDS:
        raise ClusterError(
            "clocks-differ",
            f"the clock of {last['node']} is {format_seconds(apart)} ahead of that of {first['node']}; have the"
            " machines synchronize their clocks, for instance with chrony",
        )
    return "less than a minute apart"


def check_ddl(subject: Subject) -> str:
    """Tables can be created on every node."""
    server = subject.server
    return f"DDL mode {server.ddl_mode(subject.declaration, server.database).value}"


def check_addresses(subject: Subject) -> str:
    """A commit can reach the nodes."""
    cluster = subject.cluster
    # A table whose replicas are all of the cluster's nodes needs only one of them.
    check_reach(subject.client, cluster, any_will_do=lambda: cluster.shard_count == 1)
    return f"{count_of(len(subject.client.reachable), 'node')} reached directly"


def check_ledger(subject: Subject) -> str:
    """The table that the connection names can be the ledger; by default a table of the connection's database."""
    if not subject.is_staged:
        return NotKnown("mode='direct' uses none")
    named, cluster = subject.declaration.ledger_table, subject.cluster
    name = ledger_name(named, subject.server.database)
    has_database = name == ledger_name(named, "")
    engine = subject.server.engines.get(name.database, "")
    if not (has_database or engine):
        return f"{name.table}, in the database of each table"
    ledger = Ledger(
        client=subject.client, cluster=cluster.name, name=name, target=name, load_id="", database_engine=engine
    )
    is_there = bool(ledger.check())
    if has_database:
        rights.check_ledger(subject.client, subject.session, name, is_there=is_there)
    created = "" if is_there else ", which the first load creates"
    return f"{name}{created}{'' if has_database else '; each other database has a ledger of its own'}"


def check_table(subject: Subject) -> str:
    """The table is there on every node, and can be loaded in this mode."""
    load = subject.load
    if not load.has_table:
        return f"{load.request.table} does not exist; the load creates it"
    spec = load.target.spec
    if subject.is_staged:
        checks.check_mode(spec, load.request)
        load.target.check_commit([view.table for view in load.site.views])
        checks.check_disks(load.target, load.site.views)
    return f"{spec.local} ({spec.engine}) on {count_of(load.target.cluster.node_count, 'node')}"


def check_rows(subject: Subject) -> str:
    """The ledger knows where the rows of the table came from, or the mode need not know."""
    load = subject.load
    if not subject.is_staged:
        return NotKnown("mode='direct' adds to them, also rows that the table has already")
    if load.has_table:
        checks.check_known_before(load.target, load.request)
    return "none in the table that the load would refuse"


def check_arguments(subject: Subject) -> str:
    """The arguments do not contradict each other, and the connection to the store is there."""
    check_request(subject.load.request)
    return "source, expressions and the connection to the store can be read"


def check_files(subject: Subject) -> str:
    """The worker can list the files."""
    load, source = subject.load, subject.load.request.source
    files = list(islice(ReadyFiles(store=load.store, request=load.request), MAX_LISTED))
    if not files:
        raise SourceError(
            "no-file-matches", f"no file matches {source.with_hint}; correct source, or wait for the files"
        )
    is_cut = len(files) == MAX_LISTED
    size = format_bytes(sum(file.size_bytes for file in files))
    listed = f"{count_of(len(files), 'file')}{' or more' if is_cut else ''}, {size}, listed by this machine"
    return f"{listed}; {COST_OF_POLLS}" if is_cut else listed


def check_plan(subject: Subject) -> str:
    """The connected server can read the files, they fit the table, and the disks have room for them."""
    expected = subject.prepared.plan.prediction
    return (
        f"{format_estimate(expected.load_seconds)} to load, {format_bytes(expected.peak_memory_bytes)} of"
        f" {format_bytes(subject.prepared.cluster.weakest.memory_bytes)} of memory per node"
    )


def check_reading(subject: Subject) -> str:
    """Every node of the cluster can read a file."""
    source, load = subject.prepared.source, subject.load
    statement = load_queries.render_read_on_each_node(
        dataclasses.replace(source, files=source.files[:1], settings=load.planning.inspection.settings),
        subject.prepared.cluster.name,
    )
    try:
        nodes = subject.client.query(statement)
    except ServerError as error:
        raise ClusterError(
            "files-unreadable", f"not every node can read {source.files[0].key!r}: {error.sentence}"
        ) from error
    far = load.planning.find_distance(load.store.access())
    where = f"; the cluster is in {far[0]}, and the files are in {far[1]}" if far else ""
    nodes_read = f"{count_of(len(nodes), 'node')} can read {source.files[0].key!r}"
    return f"{nodes_read} with {source.access.credentials}{where}"


def check_disk(subject: Subject) -> str:
    """Where new parts of the table go; *plan* fails if a node has no room for the load."""
    volumes, engine = subject.prepared.volumes, subject.prepared.target.engine
    if not is_merge_tree(engine):
        return NotKnown(f"a {engine} table has no storage policy")
    if not volumes:
        return NotKnown("unknown: this user may not read system.storage_policies and system.disks")
    if any(volume.is_remote for volume in volumes):
        return "new parts may go to an object store"
    return _least_free(
        {
            node: (sum(one.free_bytes for one in of_node), sum(one.total_bytes for one in of_node))
            for node, of_node in groupby(volumes, key=lambda one: one.node)
        }
    )


def _least_free(room: Mapping[str, tuple[int, int]]) -> str:
    """Name the node with the least room.

    :param room: node → free and total bytes.
    """
    node, (free, total) = min(room.items(), key=lambda item: item[1])
    others = ", and no less on any other" if len(room) > 1 else ""
    # Of a store without a size, ClickHouse reports no total.
    of_total = f" of {format_bytes(total)}" if total else ""
    return f"{format_bytes(free)}{of_total} are free on {node}{others}"


_CONNECTION = Check(name="connection", run=check_connection)
_NODES = (
    Check(name="nodes", run=check_nodes, after=("connection",)),
    Check(name="clocks", run=check_clocks, after=("nodes",)),
    Check(name="ddl", run=check_ddl, after=("nodes",)),
    Check(name="addresses", run=check_addresses, after=("nodes", "ddl")),
    Check(name="ledger", run=check_ledger, after=("nodes",)),
)
CONNECTION_CHECKS = (_CONNECTION, *_NODES)
LOAD_CHECKS = (
    _CONNECTION,
    Check(name="arguments", run=check_arguments),
    Check(name="rights", run=check_rights, after=("connection", "arguments")),
    *_NODES,
    Check(name="files", run=check_files, after=("arguments",)),
    Check(name="table", run=check_table, after=("arguments", "addresses")),
    Check(name="rows", run=check_rows, after=("table", "ledger")),
    Check(name="plan", run=check_plan, after=("files", "table")),
    Check(name="reading", run=check_reading, after=("plan",)),
    Check(name="disk", run=check_disk, after=("plan",)),
)
