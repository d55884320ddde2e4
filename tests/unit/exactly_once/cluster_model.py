"""A model of a small ClickHouse cluster, and of processes that talk to it, for tests of the protocol.

It models ClickHouse, and nothing of loads: tables, their partitions and parts, renames, merges, running queries and
their logs, KILL QUERY, nodes that die within an ALTER or refuse a part of it, and statements that arrive late or
whose response is lost. Every request to one node is one step. Between two steps the test decides which process
continues, which one dies, and which one is suspended for so long that others consider it dead. Processes are
greenlets, so that thousands of interleavings take seconds.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from greenlet import greenlet

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.common.seal import Login
from airflow_provider_ch_s3.errors import ServerError, ServerUnreachableError
from airflow_provider_ch_s3.exactly_once.moved import DIGEST_LENGTH

UNKNOWN_TABLE = 60
TABLE_ALREADY_EXISTS = 57
SAME_QUERY_ID = 216
SETTING = "allow_replace_partition_from_empty_source"
# Queries whose result never changes during a test: they are no steps of their own.
CONSTANT = {
    *("read_settings", "read_ledger_comments", "read_table", "read_columns", "read_past_reports"),
    "read_earlier_uuids",
}
AHEAD_SECONDS = 30.0
"""How far the clock of the node with the ledger is ahead of the other clocks."""
LOG_FLUSH_SECONDS = 1.0
# The rows that replace_where replaces: see is_replaced.
CONDITION = "row NOT LIKE 'kept%'"

Rows = Counter[tuple[str, str]]


def is_replaced(row: str) -> bool:
    """Whether :data:`CONDITION` holds for a row."""
    return not row.startswith("kept")


def condition_of(statement: Statement) -> Callable[[tuple[str, str]], bool]:
    """Whether a statement's condition holds for a row: loads and files that it is from, :data:`CONDITION`, or none.

    A row has the name of its file at its beginning.
    """
    if loads := re.search(r"`load` IN \(([^)]*)\)", statement.text):
        own = re.search(r"`load` = '([^']*)'", statement.text)
        files = re.search(r"`path` IN \(([^)]*)\)", statement.text)
        names = {path[-1] for path in _literals(files[1])} if files else None
        return lambda row: (
            (own is not None and row[1] == own[1])
            or (row[1] in _literals(loads[1]) and (names is None or row[0][0] in names))
        )
    return lambda row: CONDITION in statement.text and is_replaced(row[0])


class Killed(BaseException):
    """SIGKILL: the process does nothing more."""


@dataclass
class Part:
    """One part of a partition.

    :param digest: hash of its files; a clone has the same.
    :param rows: how often it has each (row, query id of the INSERT that wrote it).
    :param version: block number of the last mutation that changed it, or its own.
    """

    partition: str
    digest: str
    rows: Rows
    first_block: int
    last_block: int
    is_active: bool = True
    version: int = 0
    level: int = 0

    @property
    def name(self) -> str:
        return f"{self.partition}_{self.first_block}_{self.last_block}"


@dataclass
class Table:
    """One table on one node.

    :param blocks: the last block number that was assigned.
    :param entries: rows of a table that is written as JSON.
    """

    uuid: str
    comment: str = ""
    parts: list[Part] = field(default_factory=list)
    blocks: int = 0
    is_frozen: bool = False
    entries: list[dict[str, Any]] = field(default_factory=list)

    def active(self, partition: str) -> list[Part]:
        return [part for part in self.parts if part.is_active and part.partition == partition]

    def add(self, partition: str, digest: str, rows: Rows) -> None:
        """Add a new part."""
        self.blocks += 1
        self.parts.append(Part(partition, digest, Counter(rows), self.blocks, self.blocks, version=self.blocks))

    def retire(self, partition: str) -> None:
        for part in self.active(partition):
            part.is_active = False

    def drop(self, partition: str) -> None:
        """DROP PARTITION: an empty part takes the place of each part, which is gone at once."""
        for part in self.active(partition):
            self.drop_part(part)

    def drop_part(self, part: Part) -> None:
        part.rows, part.digest, part.level = Counter(), "empty", part.level + 1

    def attach_again(self, partition: str) -> None:
        """DETACH PARTITION, then ATTACH PARTITION: the parts have new numbers."""
        parts = self.active(partition)
        self.parts = [part for part in self.parts if part not in parts]
        for part in parts:
            if part.rows:
                self.add(partition, part.digest, part.rows)

    def merge(self, partition: str) -> None:
        """Merge all parts of a partition into one; the old ones stay listed."""
        parts = self.active(partition)
        if len(parts) > 1 and not self.is_frozen:
            rows: Rows = sum((part.rows for part in parts), Counter())
            self.retire(partition)
            digest = "+".join(part.digest for part in parts)
            first, last = min(part.first_block for part in parts), max(part.last_block for part in parts)
            version = max((part.version for part in parts if part.version > part.first_block), default=first)
            self.parts.append(Part(partition, digest, rows, first, last, version=version))

    def forget(self) -> None:
        """List inactive parts no longer."""
        self.parts = [part for part in self.parts if part.is_active]

    @property
    def partitions(self) -> dict[str, Rows]:
        found: dict[str, Rows] = {}
        for part in self.parts:
            if part.is_active:
                found.setdefault(part.partition, Counter()).update(part.rows)
        return {partition: rows for partition, rows in found.items() if rows}


@dataclass
class Node:
    """One server."""

    name: str
    tables: dict[str, Table] = field(default_factory=dict)
    query_log: list[dict[str, Any]] = field(default_factory=list)
    part_log: list[tuple[str, str, str]] = field(default_factory=list)
    started: float = -1000.0


@dataclass(eq=False)
class Insert:
    """An INSERT … SELECT that runs on all nodes.

    :param shares: the files that are still to be written, each with its node.
    """

    query_id: str
    node: Node
    tables: Mapping[str, Table]
    shares: list[tuple[Node, str]]
    log_comment: str
    began: float
    is_killed: bool = False
    error: str = ""
    is_over: bool = False
    done: list[tuple[Node, str, int]] = field(default_factory=list)


@dataclass(eq=False)
class Fault:
    """What happens when a statement is about to be sent.

    :param kind: ``kill``, ``kill_late`` (the statement arrives after the death of its sender), ``lost_request``,
        ``lost_answer``, ``late`` (no response, and the statement arrives later), ``pause``, ``signal`` (SIGTERM),
        ``refuse`` (the server answers with an error, and does nothing);
        for a running INSERT: ``fail``, ``vanish`` (its node was restarted, and the log is lost);
        for an ALTER that moves or replaces partitions: ``crash`` (its node dies between two steps of its commands,
        and is back at once), ``stop`` (after some of its commands the server answers with an error).
    :param statement: its name, or ``insert step`` or ``alter step``.
    :param after: how many of that name pass before.
    """

    kind: str
    statement: str
    after: int


@dataclass(eq=False)
class Process:
    """One process of a task: ``main``, and the threads that it starts."""

    name: str
    main: Callable[[Process], Any]
    cluster: Cluster
    node: Node
    lock_node: Node
    threads: list[Thread] = field(default_factory=list)
    is_dead: bool = False
    is_paused: bool = False
    wakes_at_step: int = 0
    result: Any = None
    error: BaseException | None = None
    on_signal: Callable[[], None] | None = None

    def start(self) -> None:
        self.threads.append(Thread(self, self._run, self.name))

    def _run(self) -> None:
        try:
            self.result = self.main(self)
        except (Killed, Exception) as error:
            self.error = error
        self.cluster.changes += 1
        self.kill()  # its other threads end with it
        self.cluster.note(f"{self.name} ends: {self.error or 'loaded'}")

    @property
    def is_over(self) -> bool:
        return self.threads[0].is_over

    def kill(self) -> None:
        """Send nothing from now on; :meth:`Cluster.step` ends its threads."""
        self.is_dead = True


class Thread:
    """A thread of a process, as the test schedules it."""

    def __init__(self, process: Process, target: Callable[[], None], name: str) -> None:
        self.process = process
        self.name = name
        self.wakes_at = 0.0
        self.waits_for: Insert | None = None
        self.is_over = False
        self._target = target
        self.greenlet = greenlet(self._run, parent=process.cluster.hub)

    def _run(self) -> None:
        try:
            self._target()
        except Killed:
            pass
        finally:
            self.is_over = True

    def sleep(self, seconds: float) -> None:
        self.wakes_at = self.process.cluster.now + seconds
        self.switch()

    def switch(self) -> None:
        """Let others continue."""
        if self.process.is_dead:
            raise Killed
        self.process.cluster.hub.switch()
        if self.process.is_dead:
            raise Killed

    def end(self) -> None:
        if self.greenlet:  # it has started
            self.greenlet.throw(Killed())
        self.is_over = True

    @property
    def is_ready(self) -> bool:
        waits = self.waits_for is not None and not self.waits_for.is_over
        return not (self.is_over or self.process.is_paused or waits)


class ModelThread:
    """Replaces :class:`threading.Thread` in the code under test."""

    def __init__(
        self, *, target: Callable[..., None], args: tuple[Any, ...] = (), name: str = "", daemon: bool = False
    ) -> None:
        cluster = Cluster.current
        self._thread = Thread(cluster.running.process, lambda: target(*args), name)

    def start(self) -> None:
        self._thread.process.threads.append(self._thread)


class ModelEvent:
    """Replaces :class:`threading.Event` in the code under test."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Thread] = []

    def set(self) -> None:
        self._is_set = True
        for thread in self._waiting:
            thread.wakes_at = Cluster.current.now

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> None:
        thread = Cluster.current.running
        self._waiting.append(thread)
        thread.sleep(seconds)
        self._waiting.remove(thread)


class Cluster:
    """Nodes, what runs on them, statements in transit to them, and the processes that use them.

    :param objects: key → partition → rows.
    """

    current: Cluster

    @classmethod
    def now_of_current(cls) -> float:
        """The clock of the cluster that was made last."""
        return cls.current.now

    def __init__(self, node_count: int, objects: Mapping[str, Mapping[str, list[str]]], rng: random.Random) -> None:
        Cluster.current = self
        self.hub = greenlet.getcurrent()
        self.nodes = [Node(f"n{number}:9000") for number in range(1, node_count + 1)]
        self.objects = objects
        self.rng = rng
        self.now = 0.0
        self.steps = 0
        self.changes = 0  # increases with every change that a rule may depend on
        self.inserts: list[Insert] = []
        self.late: list[tuple[Node, Statement, str | None]] = []
        self.processes: list[Process] = []
        self.faults: list[Fault] = []
        self.split_ratio = 0.0
        self.has_part_log = rng.random() < 0.5
        self.trace: list[str] = []
        self.running: Thread
        self._uuids = 0
        self._parts = 0

    # what the tests use

    def create(self, table: str, rows: Mapping[str, list[str]]) -> None:
        """Create a table on every node, and distribute its rows over the nodes in turn."""
        for node in self.nodes:
            node.tables[table] = Table(self._uuid())
        for partition, names in rows.items():
            for number, name in enumerate(names):
                self._add(self.nodes[number % len(self.nodes)].tables[table], partition, [name], "before")

    def insert(self, table: str, partition: str, row: str) -> None:
        """Insert a row on some node, as somebody else."""
        self._add(self.rng.choice(self.nodes).tables[table], partition, [row], "before")

    def mutate(
        self, node: Node, table: str, partition: str, row: tuple[str, str], new: tuple[str, str] | None = None
    ) -> None:
        """Delete or update a row on one node, as somebody else, by a mutation of the parts that have it."""
        held = node.tables[table]
        held.blocks += 1
        for part in held.active(partition):
            if part.rows[row]:
                self._parts += 1
                part.is_active = False
                kept = Counter({one: count for one, count in part.rows.items() if one != row})
                if new:
                    kept[new] += part.rows[row]
                mutated = replace(part, digest=f"part-{self._parts}", rows=kept, is_active=True, version=held.blocks)
                held.parts.append(mutated)

    def contents(self, table: str) -> dict[str, Rows]:
        """Read the rows of all nodes."""
        found: dict[str, Rows] = {}
        for node in self.nodes:
            for partition, rows in node.tables[table].partitions.items():
                found.setdefault(partition, Counter()).update(rows)
        return found

    def merge(self) -> None:
        """Merge on some node, if there is anything to merge."""
        node = self.rng.choice(self.nodes)
        for table in node.tables.values():
            for partition in table.partitions:
                table.merge(partition)

    def entries(self, table: str) -> list[dict[str, Any]]:
        return [row for node in self.nodes if table in node.tables for row in node.tables[table].entries]

    def launch(self, name: str, main: Callable[[Process], Any]) -> Process:
        node, lock_node = self.rng.choice(self.nodes), self.rng.choice(self.nodes[:2])
        process = Process(name, main, self, node, lock_node)
        process.start()
        self.processes.append(process)
        self.note(f"{name} starts")
        return process

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now:7.2f} {text}")

    def ready(self) -> list[Thread | Insert]:
        threads = [t for p in self.processes for t in p.threads if t.is_ready]
        return [*threads, *(i for i in self.inserts if not i.is_over)]

    def step(self, what: Thread | Insert) -> None:
        """Let one thread or one INSERT continue for one step."""
        self.steps += 1
        self.now += 0.01
        if isinstance(what, Insert):
            self._advance(what)
        else:
            self.now = max(self.now, what.wakes_at)
            self.running = what
            what.greenlet.switch()
            if what.process.is_dead:
                for thread in what.process.threads:
                    thread.end()

    def deliver(self, index: int) -> None:
        """Let a statement that was in transit arrive."""
        node, statement, query_id = self.late.pop(index)
        self.note(f"LATE: {describe(statement)} @{node.name}")
        try:
            self.run(node, statement, query_id)
        except (ServerError, ServerUnreachableError) as error:
            self.note(f"  {error}")

    def fault(self, statement: str) -> str:
        """Get the kind of fault that happens now; '' if none does."""
        for fault in self.faults:
            if fault.statement == statement:
                fault.after -= 1
                if fault.after < 0:
                    self.faults.remove(fault)
                    return fault.kind
        return ""

    # what its servers execute

    def run(self, node: Node, statement: Statement, query_id: str | None) -> list[dict[str, Any]] | Insert:
        """Run a statement on one node.

        :raises ServerError: as a server would.
        """
        method = getattr(self, f"_{re.sub('^write_event_.*', 'write_ledger', statement.name)}")
        result: list[dict[str, Any]] | Insert = method(node, statement, query_id) or []
        return result

    def _uuid(self) -> str:
        self._uuids += 1
        return f"uuid-{self._uuids}"

    def _add(self, table: Table, partition: str, names: Iterable[str], writer: str) -> None:
        self._parts += 1
        table.add(partition, f"part-{self._parts}", Counter((name, writer) for name in names))

    def _table(self, node: Node, name: str) -> Table:
        if name not in node.tables:
            raise ServerError("server-error", f"Table d.{name} does not exist", server_code=UNKNOWN_TABLE)
        return node.tables[name]

    def _create_table(self, node: Node, statement: Statement, *, if_not_exists: bool) -> None:
        name = _names(statement.text)[0]
        if name in node.tables:
            if if_not_exists:
                return
            raise ServerError("server-error", f"Table d.{name} already exists", server_code=TABLE_ALREADY_EXISTS)
        comment = re.search(r"\nCOMMENT '(.*)'$", statement.text, re.DOTALL)
        node.tables[name] = Table(self._uuid(), _unescape(comment[1]) if comment else "")

    def _create_ledger(self, node: Node, statement: Statement, _: str | None) -> None:
        self._create_table(node, statement, if_not_exists=True)

    _create_ledger_files = _create_staging = _create_ledger

    def _hold_merges(self, node: Node, statement: Statement, _: str | None) -> None:
        self._table(node, _names(statement.text)[0]).is_frozen = True

    def _drop_parts(self, node: Node, statement: Statement, _: str | None) -> None:
        table = self._table(node, _names(statement.text)[0])
        for part in table.parts:
            if part.name in _literals(statement.text):
                part.is_active = False

    def _create_lock(self, node: Node, statement: Statement, _: str | None) -> None:
        self._create_table(node, statement, if_not_exists=False)

    def _drop_lock(self, node: Node, statement: Statement, _: str | None) -> None:
        name = _names(statement.text)[0]
        self._table(node, name)
        del node.tables[name]

    def _drop_staging(self, node: Node, statement: Statement, _: str | None) -> None:
        node.tables.pop(_names(statement.text)[0], None)

    def _rename_staging(self, node: Node, statement: Statement, _: str | None) -> None:
        old, new = _names(statement.text)
        if old in node.tables:
            if new in node.tables:
                raise ServerError("server-error", f"Table d.{new} already exists", server_code=TABLE_ALREADY_EXISTS)
            node.tables[new] = node.tables.pop(old)

    def _move_partitions(self, node: Node, statement: Statement, _: str | None) -> None:
        source, target = (self._table(node, name) for name in _names(statement.text)[:2])
        commands = {}
        for partition in _literals(statement.text):
            parts = source.active(partition)
            commands[partition] = [
                *(partial(target.add, partition, part.digest, part.rows) for part in parts),
                *(partial(setattr, part, "is_active", False) for part in parts),
            ]
        self._alter(node, target, commands)

    def _replace_partitions(self, node: Node, statement: Statement, query_id: str | None) -> None:
        target, source = (self._table(node, name) for name in _names(statement.text)[:2])
        commands = {}
        for partition in _literals(statement.text):
            if not source.partitions.get(partition) and f"{SETTING} = 1" not in statement.text:
                raise ServerError("server-error", "the source partition is empty", server_code=36)
            commands[partition] = [
                *(partial(target.add, partition, part.digest, part.rows) for part in source.active(partition)),
                *(partial(setattr, part, "is_active", False) for part in target.active(partition)),
                partial(node.part_log.append, (target.uuid, partition, query_id or "")),
            ]
        self._alter(node, target, commands)

    _copy_partitions = _replace_partitions

    def _attach_partitions(self, node: Node, statement: Statement, _: str | None) -> None:
        target, source = (self._table(node, name) for name in _names(statement.text)[:2])
        for partition in _literals(statement.text):
            for part in source.active(partition):
                target.add(partition, part.digest, part.rows)

    def _delete_rows(self, node: Node, statement: Statement, _: str | None) -> None:
        table = self._table(node, _names(statement.text)[0])
        for part in [part for part in table.parts if part.is_active]:
            kept = Counter({row: count for row, count in part.rows.items() if not condition_of(statement)(row)})
            if kept != part.rows:
                self._parts += 1
                part.is_active = False
                table.parts.append(replace(part, digest=f"part-{self._parts}", rows=kept, is_active=True))

    def _await_deletion(self, *_: object) -> None:
        """It is done at once."""

    def _alter(self, node: Node, target: Table, commands: Mapping[str, Sequence[Callable[[], None]]]) -> None:
        """Run one command after the other, unless the node dies after any step of them, or refuses one of them.

        :param commands: partition → the steps of its command.
        """
        self.changes += 1
        steps = [step for command in commands.values() for step in command]
        kind = self.fault("alter step") if steps else ""
        done = len(steps)
        if kind == "crash":
            done = self.rng.randrange(len(steps))
        elif kind == "stop":
            done = sum(len(command) for command in [*commands.values()][: self.rng.randrange(len(commands))])
        for step in steps[:done]:
            step()
        if kind == "crash":
            self.note(f"{node.name} dies after {done} of {len(steps)} steps of an ALTER")
            node.started = self.now
            node.part_log.clear()
            for partition in commands:
                target.merge(partition)
            raise ServerUnreachableError("server-unreachable", "the node died")
        if kind == "stop":
            self.note(f"{node.name} ends an ALTER after {done} of {len(steps)} steps")
            raise ServerError("server-error", "memory limit exceeded", server_code=241)

    def _write_ledger(self, node: Node, statement: Statement, _: str | None) -> None:
        table = self._table(node, _names(statement.text)[0])
        for line in statement.text.partition("FORMAT JSONEachRow\n")[2].splitlines():
            # with microseconds, so that no two rows have the same time
            table.entries.append({**json.loads(line), "time_seconds": self.now + AHEAD_SECONDS + self.steps / 1e6})

    _write_files = _write_ledger

    def _kill_queries(self, node: Node, statement: Statement, _: str | None) -> None:
        prefix = _literals(statement.text)[0]
        for insert in self.inserts:
            if not insert.is_over and insert.query_id.startswith(prefix):
                insert.is_killed = True

    def _flush_logs(self, node: Node, *_: object) -> None:
        for row in node.query_log:
            row["visible_at"] = min(row["visible_at"], self.now)

    def _insert_load(self, node: Node, statement: Statement, query_id: str | None) -> Insert:
        target = _match(r"FUNCTION cluster\('c', 'd', '(\w+)'\)", statement.text)
        keys = _match(r"'http://s3/bucket/([^']*)'", statement.text)
        comment = _match(r"log_comment = '(.*)'", statement.text)
        assert query_id
        if any(i.query_id == query_id and not i.is_over for i in self.inserts):
            raise ServerError(
                "server-error", f"Query with id = {query_id} is already running.", server_code=SAME_QUERY_ID
            )
        tables = {n.name: n.tables[target[1]] for n in self.nodes if target[1] in n.tables}
        shares = [(self.rng.choice(self.nodes), key) for key in _expand(keys[1])]
        insert = Insert(query_id, node, tables, shares, _unescape(comment[1]), self.now)
        self.inserts.append(insert)
        self.changes += 1
        if len(tables) < len(self.nodes):
            self._end(insert, f"Table d.{target[1]} does not exist")
            raise ServerError("server-error", insert.error, server_code=UNKNOWN_TABLE)
        self._log(insert, insert.node, "QueryStart")
        return insert

    def _advance(self, insert: Insert) -> None:
        fault = self.fault("insert step")
        if insert.is_killed:
            self._end(insert, "Query was cancelled")
        elif fault == "fail":
            self._end(insert, "S3_ERROR")
        elif fault == "vanish":
            insert.node.started = self.now
            insert.node.query_log.clear()
            insert.is_over, insert.error = True, "lost"
            self.note(f"{insert.query_id} vanishes, with the log of {insert.node.name}")
        elif insert.shares:
            node, key = insert.shares.pop()
            for partition, names in self.objects[key].items():
                self._add(insert.tables[node.name], partition, names, insert.query_id)
            insert.done.append((node, key, sum(map(len, self.objects[key].values()))))
        else:
            self._end(insert, "")

    def _end(self, insert: Insert, error: str) -> None:
        insert.is_over, insert.error = True, error
        self.note(f"{insert.query_id} ends{': ' + error if error else ''}")
        self._log(insert, insert.node, "ExceptionWhileProcessing" if error else "QueryFinish")

    def _log(self, insert: Insert, initiator: Node, event: str) -> None:
        for node in self.nodes:
            own = [rows for n, _, rows in insert.done if n is node]
            is_initial = node is initiator
            if not is_initial and (event == "QueryStart" or not own):
                continue
            row = self._query_row(node, insert, is_initial=is_initial) | {
                "event": event,
                "exception_code": 1 if insert.error else 0,
                "exception": insert.error,
                "start_seconds": insert.began,
                "duration_seconds": self.now - insert.began,
                "visible_at": self.now + self.rng.uniform(0, LOG_FLUSH_SECONDS),
            }
            share = {"read_rows": sum(own), "files": len(own), "part_rows": sum(own), "part_bytes": 0}
            if is_initial:
                # it counts what all nodes read; its own share is a separate query
                total = sum(rows for _, _, rows in insert.done)
                node.query_log.append(
                    row | {"read_rows": total, "written_rows": 0, "files": 0, "part_rows": 0, "part_bytes": 0}
                )
            if own:
                part = {"query_id": f"part of {insert.query_id}", "is_initial": False}
                node.query_log.append(row | share | part)

    def _query_row(self, node: Node, insert: Insert, *, is_initial: bool) -> dict[str, Any]:
        rows = sum(count for n, _, count in insert.done if n is node)
        return {
            "node": node.name,
            "initial_query_id": insert.query_id,
            "query_id": insert.query_id if is_initial else f"part of {insert.query_id}",
            "is_initial": is_initial,
            "elapsed_seconds": self.now - insert.began,
            "read_rows": rows,
            "read_bytes": rows,
            "total_rows_approx": 0,
            "written_rows": rows,
            "peak_memory_bytes": 1,
            "store_bytes": rows,
            "requests": 1,
            "initial_parts": 1,
            "settings": {},
            "log_comment": insert.log_comment,
        }

    # what its servers report

    def _read_settings(self, node: Node, *_: object) -> list[dict[str, Any]]:
        return [
            {"name": SETTING, "value": "0", "readonly": 0, "min": None, "max": None, "type": "Bool", "is_even": 1}
        ]

    def _check_grant(self, *_: object) -> list[dict[str, Any]]:
        return [{"result": 1}]

    def _read_uptimes(self, node: Node, *_: object) -> list[dict[str, Any]]:
        return [{"node": node.name, "uptime_seconds": self.now - node.started}]

    def _read_ledger_comments(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        names = _match(r"name IN \((.*)\)", statement.text)
        return [
            {"node": node.name, "name": name, "engine": "MergeTree", "comment": node.tables[name].comment}
            for name in _literals(names[1])
            if name in node.tables
        ]

    def _read_tables(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        prefixes = tuple(_literals(statement.text.partition("startsWith")[2]))
        return [
            {"node": node.name, "name": name, "comment": table.comment, "uuid": table.uuid}
            for name, table in sorted(node.tables.items())
            if name.startswith(prefixes)
        ]

    def _read_events(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        return self._entries(node, statement)

    def _read_broken_parts(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        return []  # its disks lose nothing

    def _read_attempt_files(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        attempts = _attempts(statement)
        return [row for row in self._entries(node, statement) if (row["load_id"], row["attempt"]) in attempts]

    def _read_loaded_files(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        first, last = _match(r"path BETWEEN '(.*)' AND '(.*)'", statement.text).groups()
        return [row for row in self._entries(node, statement) if first <= row["path"] <= last]

    def _read_last_files(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        prefix = _match(r"startsWith\(path, '(.*)'\)", statement.text)[1]
        before = re.search(r"path < '(.*)'", statement.text)
        rows = [row for row in self._entries(node, statement) if row["path"].startswith(prefix)]
        return [row for row in rows if before is None or row["path"] < before[1]]

    def _read_commits(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        numbers = _listed("attempt", statement)
        return [row for row in self._committed(node, statement) if str(row["attempt"]) in numbers]

    def _read_commits_into(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        partitions = _literals(_match(r"hasAny\(mapKeys\(partitions\), \[(.*)\]\)", statement.text)[1])
        since = int(_match(r"epoch >= (\d+)", statement.text)[1])
        found = self._committed(node, statement)
        return [row for row in found if row["epoch"] >= since and row["partitions"].keys() & set(partitions)]

    def _read_replacements(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        keeping = ("append", "replace_where", "replace_files", "undo")
        return [row for row in self._committed(node, statement) if row["load_mode"] not in keeping]

    def _read_last_commit(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        epochs = (row["epoch"] for row in self._entries(node, statement) if row["event"] == "committed")
        return [{"epoch": max(epochs, default=0)}]

    def _write_names(self, *_: object) -> None:
        """The table is never renamed."""

    def _write_announcement(self, *_: object) -> None:
        """Memory is not modelled."""

    def _read_earlier_uuids(self, *_: object) -> list[dict[str, Any]]:
        return []

    _read_past_reports = _read_earlier_uuids

    def _committed(self, node: Node, statement: Statement) -> list[dict[str, Any]]:
        uuids = set(_literals(_match(r"hasAny\(table_uuids, \[(.*)\]\)", statement.text)[1]))
        found = self._entries(node, statement)
        return [row for row in found if row["event"] in ("committed", "undone") and uuids & set(row["table_uuids"])]

    def _entries(self, node: Node, statement: Statement) -> list[dict[str, Any]]:
        ledger = _match(r"FROM clusterAllReplicas\('c', 'd', '(\w+)'\)", statement.text)
        target = _match(r"target = '(.*?)'", statement.text)
        return [row for row in self._table(node, ledger[1]).entries if row["target"] == target[1]]

    def _read_partitions(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        name = _match(r"table = '(\w+)'", statement.text)
        table = node.tables.get(name[1])
        return [
            {
                "node": node.name,
                "partition_id": partition,
                "rows": rows.total(),
                "version": max(
                    (part.version for part in table.active(partition) if part.version != part.first_block), default=0
                ),
                "last_block": max(part.last_block for part in table.active(partition)),
                "ranges": [(part.first_block, part.last_block) for part in table.active(partition)],
                "has_deleted": 0,
            }
            for partition, rows in sorted(table.partitions.items() if table else ())
        ]

    def _count_target(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        table = self._table(node, _match(r"table = '(\w+)'", statement.text)[1])
        count = sum(rows.total() for rows in table.partitions.values())
        return [{"node": node.name, "rows": count, "has_deleted": 0}]

    def _touched_partitions(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        table = self._table(node, _match(r"clusterAllReplicas\('c', 'd', '(\w+)'\)", statement.text)[1])
        found = table.partitions.items()
        return [{"_partition_id": name} for name, rows in found if any(map(condition_of(statement), rows))]

    def _count_outside(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        table = self._table(node, _match(r"cluster\('c', 'd', '(\w+)'\)", statement.text)[1])
        rows: Rows = sum(table.partitions.values(), Counter())
        kept = sum(count for row, count in rows.items() if not condition_of(statement)(row))
        return [{"ch_s3_rows": rows.total(), "ch_s3_outside": kept}]

    def _unapplied_changes(self, *_: object) -> list[dict[str, Any]]:
        return []

    def _renamed_columns(self, *_: object) -> list[dict[str, Any]]:
        return []

    def _read_blocks(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        names = re.findall(r"'d', '(\w+)'", statement.text)
        return [
            {
                "node": node.name,
                "table": name,
                "partition_id": partition,
                "rows": sum(part.rows.total() for part in table.active(partition)),
                "last_block": max(part.last_block for part in table.parts if part.partition == partition),
                "version": max((part.version for part in table.active(partition)), default=0),
            }
            for name in names
            if (table := node.tables.get(name)) is not None
            for partition in sorted({part.partition for part in table.parts})
        ]

    def _read_digests(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        table = node.tables.get(_match(r"table = '(\w+)'", statement.text)[1])
        wanted = _literals(_match(r"partition_id IN \((.*)\)", statement.text)[1])
        return [
            {
                "node": node.name,
                "partition_id": one,
                "digests": [part.digest[:DIGEST_LENGTH] for part in table.active(one)],
            }
            for one in wanted
            if table and table.active(one)
        ]

    def _read_parts(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        names = re.findall(r"'d', '(\w+)'", statement.text)
        wanted = _literals(_match(r"partition_id IN \((.*)\)", statement.text)[1])
        return [
            {
                "node": node.name,
                "table": name,
                "partition_id": part.partition,
                "name": part.name,
                "rows": part.rows.total(),
                "first_block": part.first_block,
                "last_block": part.last_block,
                "digest": part.digest,
                "active": int(part.is_active),
                "fresh": int(part.first_block == part.last_block == part.version and not part.level),
                "version": part.version,
                "uptime_seconds": self.now - node.started,
            }
            for name in sorted(names)
            if (table := node.tables.get(name)) is not None
            for part in sorted(table.parts, key=lambda part: (part.partition, part.first_block))
            if part.partition in wanted
        ]

    def _count_same_rows(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        place = r"= '(\w+:\d+)'\s+AND _partition_id = '(\w+)'\s+AND [^>]+ > (-?\d+)"
        name, partition, last_block = _match(place, statement.text).groups()
        if node.name != name:
            return []
        by_key = "sipHash64(row)" in statement.text
        staged = self._table(node, _match(r"FROM `d`.`(\w+)`", statement.text)[1])
        target = self._table(node, _match(r"clusterAllReplicas\('c', 'd', '(\w+)'\)", statement.text)[1])
        later = [part.rows for part in target.active(partition) if part.last_block > int(last_block)]
        gained: Rows = sum(later, Counter())
        wanted = {row[: 1 if by_key else 2] for part in staged.active(partition) for row in part.rows}
        same = sum(count for row, count in gained.items() if row[: 1 if by_key else 2] in wanted)
        return [{"ch_s3_rows": gained.total(), "ch_s3_same_rows": same}]

    def _sum_rows(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        name, partition = _match(r"= '(\w+:\d+)'\s+AND _partition_id = '(\w+)'", statement.text).groups()
        if node.name != name:
            return []
        table = self._table(node, _match(r"clusterAllReplicas\('c', 'd', '(\w+)'\)", statement.text)[1])
        rows: Rows = sum((part.rows for part in table.active(partition)), Counter())
        return [{"ch_s3_rows": rows.total(), "ch_s3_sum": sorted(rows.items())}]

    def _read_logged_parts(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        uuids = _literals(_match(r"table_uuid\) IN \((.*)\)", statement.text)[1])
        wanted = _literals(_match(r"partition_id IN \((.*)\)", statement.text)[1])
        prefix = _literals(statement.text.partition("startsWith")[2])[0]
        if not self.has_part_log:
            raise ServerError("server-error", "Unknown table system.part_log", server_code=UNKNOWN_TABLE)
        seen = [
            (partition, query_id)
            for uuid, partition, query_id in node.part_log
            if uuid in uuids and partition in wanted
        ]
        return [
            {
                "node": node.name,
                "reaches_back": 1,
                "has_named": 1,
                "seen": [partition for partition, _ in seen],
                "added": [partition for partition, query_id in seen if query_id.startswith(prefix)],
            }
        ]

    def _read_table(self, node: Node, *_: object) -> list[dict[str, Any]]:
        definition = {"uuid": "never made again", "create_table_query": "never altered", "sorting_key": "row"}
        return [{"node": node.name, **definition, "views": []}]

    def _read_columns(self, node: Node, *_: object) -> list[dict[str, Any]]:
        said = {"type": "String", "default_kind": "", "default_expression": ""}
        return [{"node": node.name, "name": name, **said} for name in ("row", "load")]

    def _read_idle_seconds(self, *_: object) -> list[dict[str, Any]]:
        return [{"idle_seconds": 0.0}]

    def _running_queries(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        prefix = _literals(statement.text.partition("startsWith")[2])[0]
        return [
            self._query_row(node, insert, is_initial=node is insert.node)
            for insert in self.inserts
            if not insert.is_over and insert.query_id.startswith(prefix)
        ]

    def _count_loads(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        but = _match(r"load_id != '(.*?)'", statement.text)[1]
        return [{"loads": sum(not insert.is_over and not insert.query_id.startswith(but) for insert in self.inserts)}]

    def _logged_queries(self, node: Node, statement: Statement, _: str | None) -> list[dict[str, Any]]:
        prefix = _literals(statement.text.partition("startsWith")[2])[0]
        return [
            row
            for row in node.query_log
            if row["initial_query_id"].startswith(prefix) and row["visible_at"] <= self.now
        ]


class ModelClient:
    """The connection of one process; implements :class:`ClickHouseClient`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.cluster = process.cluster
        self.login = Login()

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        cluster = self.cluster
        is_distributed = "clusterAllReplicas(" in statement.text or statement.name == "count_outside"
        nodes = cluster.nodes if is_distributed else [self.process.node]
        if statement.name in CONSTANT:
            return _rows(cluster, nodes, statement)
        # A distributed query reads each node at a different moment.
        groups = [nodes]
        if len(nodes) > 1 and cluster.rng.random() < cluster.split_ratio:
            groups = [[node] for node in cluster.rng.sample(nodes, len(nodes))]
        found: list[dict[str, Any]] = []
        for group in groups:
            kind = self._wait(statement, group[0])
            if kind in ("lost_request", "lost_answer", "late", "kill_late"):
                self._lose(kind)
            found += _rows(cluster, group, statement)
        return _merged(found, statement, cluster.now)

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        self._send(self.process.node, statement, query_id)

    def execute_everywhere(self, render: Callable[[str | None], Statement], *, query_id: str | None = None) -> None:
        self._send_each(self.cluster.nodes, render(None), query_id)

    def _send_each(self, nodes: Sequence[Node], statement: Statement, query_id: str | None) -> None:
        first = None
        for node in nodes:
            try:
                self._send(node, statement, query_id)
            except (ServerError, ServerUnreachableError) as error:
                first = first or error
        if first:
            raise first

    def broadcast(self, render: Callable[[str | None], Statement]) -> None:
        self.execute_everywhere(render)

    def execute_on(self, nodes: Collection[str], statement: Statement, *, query_id: str | None = None) -> None:
        self._send_each([node for node in self.cluster.nodes if node.name in nodes], statement, query_id)

    @property
    def reachable(self) -> frozenset[str]:
        return frozenset(node.name for node in self.cluster.nodes)

    def within(self, *_: object) -> ModelClient:
        return self

    def sleep(self, seconds: float) -> None:
        self.cluster.running.sleep(seconds)

    def _send(self, node: Node, statement: Statement, query_id: str | None) -> None:
        cluster, thread = self.cluster, self.cluster.running
        kind = self._wait(statement, node)
        if kind in ("late", "kill_late"):
            cluster.late.append((node, statement, query_id))
            self._lose(kind)
        if kind == "lost_request":
            self._lose(kind)
        try:
            result = cluster.run(node, statement, query_id)
        except (ServerError, ServerUnreachableError) as error:
            cluster.note(f"  {self.process.name}: {error}")
            if kind == "lost_answer":
                self._lose(kind)
            raise
        if kind == "lost_answer":
            self._lose(kind)
        if isinstance(result, Insert):
            thread.waits_for = result
            self.cluster.running.switch()
            thread.waits_for = None
            if result.error == "lost":
                raise ServerUnreachableError("server-unreachable", "the node went down")
            if result.error:
                raise ServerError("server-error", result.error, server_code=1)

    def _wait(self, statement: Statement, node: Node) -> str:
        """Wait until the statement is to be sent; returns the kind of fault that happens to it."""
        self.cluster.running.switch()
        cluster, process = self.cluster, self.process
        kind = cluster.fault(statement.name)
        cluster.note(f"{process.name}: {describe(statement)} @{node.name}{' !' + kind if kind else ''}")
        if kind == "kill":
            process.kill()
            raise Killed
        if kind == "pause":
            process.is_paused = True
            process.wakes_at_step = cluster.steps + cluster.rng.choice((20, 60, 150, 400))
            self.cluster.running.switch()
            cluster.note(f"{process.name}: continues with {statement.name}")
        if kind == "signal" and process.on_signal is not None:
            handler, process.on_signal = process.on_signal, None
            handler()
        if kind == "refuse":
            cluster.note(f"  {process.name}: refused")
            raise ServerError("server-error", "memory limit exceeded", server_code=241)
        return kind

    def _lose(self, kind: str) -> None:
        if kind == "kill_late":
            self.process.kill()
            raise Killed
        raise ServerUnreachableError("server-unreachable", "no answer")


def _rows(cluster: Cluster, nodes: Iterable[Node], statement: Statement) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for node in nodes:
        rows = cluster.run(node, statement, None)
        assert isinstance(rows, list)
        found += rows
    return found


def _merged(found: list[dict[str, Any]], statement: Statement, now: float) -> list[dict[str, Any]]:
    """What a distributed query makes of the rows of all nodes."""
    match statement.name:
        case "read_events":
            return _concerned(found, statement, now)
        case "read_last_commit":
            return [max(found, key=lambda row: int(row["epoch"]))]
        case "count_outside":
            return [{name: sum(row[name] for row in found) for name in found[0]}]
        case "read_last_files":
            return sorted(found, key=lambda row: str(row["path"]), reverse=True)
        case "read_commits" | "read_commits_into":
            return _commits(found)
        case "read_replacements":
            return _replacements(_commits(found), _listed("partition_id", statement))
    return found


def _concerned(found: Sequence[dict[str, Any]], statement: Statement, now: float) -> list[dict[str, Any]]:
    """The events of one load, those since the first attempt that was open at the last lock, and those asked for."""
    if since := re.search(r"attempt >= (\d+)", statement.text):
        load_id, first_open = "", int(since[1])
    else:
        load_id = _match(r"load_id = '(.*?)'", statement.text)[1]
        locks = [row for row in found if row["event"] == "locked"]
        first_open = max(locks, key=lambda row: row["attempt"])["first_open"] if locks else 0
    asked = _listed("attempt", statement) if " attempt IN (" in statement.text else []
    unique = {
        json.dumps(row, sort_keys=True): {**row, "age_seconds": now + AHEAD_SECONDS - row["time_seconds"]}
        for row in found
        if row["load_id"] == load_id or row["attempt"] >= first_open or str(row["attempt"]) in asked
    }
    return sorted(unique.values(), key=lambda row: (row["epoch"], row["time_seconds"]))


def _key(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["load_id"], row["generation"], row["attempt"]


def _commits(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each committed attempt once, when it was recorded first, unless it was undone."""
    commits: dict[tuple[str, int, int], dict[str, Any]] = {}
    rows = sorted(found, key=lambda row: (row["epoch"], row["time_seconds"]))
    undone = {_key(row) for row in rows if row["event"] == "undone"}
    for row in rows:
        key = _key(row)
        if key in undone:
            continue
        names = {**dict(zip(("load_id", "generation", "attempt"), key, strict=True)), "target": row["target"]}
        moment = (row["epoch"], row["time_seconds"])
        what = {"committed_at": moment, "mode": row["load_mode"], "partition_rows": row["partitions"]}
        commits.setdefault(key, {**names, **what})
    return list(commits.values())


def _replacements(commits: Iterable[Mapping[str, Any]], partitions: Collection[str]) -> list[dict[str, Any]]:
    """The last replacement of each partition; '' stands for all."""
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(commits, key=lambda row: row["committed_at"]):
        changed = row["partition_rows"] if row["mode"] == "replace_partitions" else [""]
        by = (row["load_id"], row["generation"], row["attempt"])
        for partition in set(changed) & set(partitions):
            about = {"mode": row["mode"], "partition_id": partition}
            last[row["mode"], partition] = {**about, "replaced_at": row["committed_at"], "replaced_by": by}
    return list(last.values())


def describe(statement: Statement) -> str:
    """Describe a statement in a few words."""
    match statement.name:
        case "create_lock" | "drop_lock" | "create_staging" | "drop_staging" | "rename_staging":
            return f"{statement.name} {' -> '.join(_names(statement.text)[:2])}"
        case "drop_parts":
            return f"drop_parts {_literals(statement.text)} of {_names(statement.text)[0]}"
        case "move_partitions" | "replace_partitions":
            return f"{statement.name} {_literals(statement.text)} {' '.join(_names(statement.text)[:2])}"
        case "insert_load":
            return f"insert_load {' '.join(re.findall(r'ch_s3_stage_[0-9a-z_]+', statement.text))}"
        case name if name.startswith("write_event"):
            row = json.loads(statement.text.splitlines()[-1])
            return f"{name} of {row['load_id'][-4:]}-{row['generation']}-{row['attempt']} in epoch {row['epoch']}"
        case name:
            return name


def _match(pattern: str, text: str) -> re.Match[str]:
    """Find a pattern that every statement of this kind matches."""
    match = re.search(pattern, text)
    if match is None:
        raise AssertionError(f"no {pattern} in {text}")
    return match


def _attempts(statement: Statement) -> set[tuple[str, int]]:
    return {(load, int(number)) for load, number in re.findall(r"\('(ch-s3-\w+)', (\d+)\)", statement.text)}


def _listed(column: str, statement: Statement) -> list[str]:
    """The values of a list, without their quotes."""
    text = _match(rf"{column} IN \((.*?)\)(\n|$)", statement.text)[1]
    return [value.strip().strip("'") for value in text.split(",")]


def _names(text: str) -> list[str]:
    """Extract quoted names of tables, without their database."""
    return re.findall(r"`d`\.`(\w+)`", text)


def _literals(text: str) -> list[str]:
    return [_unescape(quoted) for quoted in re.findall(r"'((?:[^'\\]|\\.)*)'", text)]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _expand(glob: str) -> list[str]:
    match = re.fullmatch(r"([^{]*)\{(.*)\}(.*)", glob)
    return [f"{match[1]}{middle}{match[3]}" for middle in match[2].split(",")] if match else [glob]
