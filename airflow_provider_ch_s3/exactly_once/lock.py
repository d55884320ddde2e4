"""The lock of a target: only one load at a time plans, commits or abandons attempts there.

A lock is a table (``lock_tables.py``) with an epoch at the end of the name. The epoch is a fencing token: epochs only
increase. A process that finds the lock of a dead owner creates the lock of the next epoch. What the old owner still
does is harmless: the new owner at once renames the old owner's staging tables (:meth:`Staging.take_over`), and late
events in the ledger are recognized by their epoch.

The tables are created on the first node in the order of the nodes' own names, so the names of nodes in a connection
do not matter. While processes disagree about the first node, because a node was added, the same epoch may be taken on
two nodes: a process that sees this releases its own lock. Users see the tables as ``ch_s3_lock_…``.

Processes that wait for a living owner do so in a queue (``lock_queue.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.text import format_seconds
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    LoadError,
    LockLostError,
    ServerError,
    ServerUnreachableError,
)
from airflow_provider_ch_s3.exactly_once.history import AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.lock_queue import LockQueue, queue_prefix
from airflow_provider_ch_s3.exactly_once.lock_tables import LockEntry, LockTable, LockTables
from airflow_provider_ch_s3.exactly_once.records import Locked
from airflow_provider_ch_s3.exactly_once.staging import FoundTables, Staging
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.sql import ledger_queries, load_queries
from airflow_provider_ch_s3.table.target import TableName, short_hash

log = get_log(__name__)

# More than any table is locked; with it, a ledger's epochs stay behind the clock.
EPOCHS_PER_SECOND = 100
LOCK_PREFIX = "ch_s3_lock_"


def lock_prefix(target: TableName) -> str:
    """Prefix of the names of a table's locks; an epoch follows."""
    return f"{LOCK_PREFIX}{short_hash(target)}_"


@dataclass(kw_only=True)
class HeldLock:
    """A lock held by this process.

    :param history: the ledger as it was right after the lock was taken.
    :param staged: the staging tables at the same time.
    :param overtaken: older locks, whose owners count as dead.
    :param when_lost: called when another process turns out to have taken over the lock.
    """

    epoch: int
    entry: LockEntry
    history: History
    staged: FoundTables
    overtaken: Sequence[LockTable]
    when_lost: Callable[[], None] = lambda: None

    @property
    def overtaken_attempts(self) -> list[AttemptId]:
        """What the owners of overtaken locks were about to commit or abandon."""
        return sorted({table.entry.attempt_id for table in self.overtaken if table.entry.attempt})


@dataclass(frozen=True, kw_only=True)
class LockState:
    """The lock, the queue and the staging tables of a target at one moment.

    :param locks: the latest lock last.
    :param queue: place → who waits there for the lock.
    """

    locks: Sequence[LockTable]
    queue: Mapping[int, LockTable]
    staged: FoundTables


class ObservedOwner:
    """What a process waiting for a lock has seen of the owner."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._pace = timing.pace()
        self._began = self._looked = self._since = timing.now()
        self._epoch = 0
        self._sign: object = None

    def log(self, owner: str, target: TableName) -> None:
        """Log who has the lock: at once, and again every half minute."""
        if self._pace.is_due(owner):
            waited = format_seconds(self._timing.now() - self._began)
            log.info("waiting for %s, which has locked %s; waited for %s so far", owner, target, waited)

    def is_look_due(self, epoch: int, *, is_next: bool) -> bool:
        """Whether to look for a heartbeat: an owner that holds the lock only for a moment needs none.

        :param epoch: of the lock.
        :param is_next: nobody else goes first. Processes further behind look less often, in case the next process is
            dead, too.
        """
        now = self._timing.now()
        if epoch != self._epoch:
            self._epoch, self._looked = epoch, now
        return now - self._looked > self._timing.lock_patience_seconds / (4 if is_next else 1)

    def is_silent(self, sign: object) -> bool:
        """Whether this has been the owner's latest heartbeat for so long that the owner counts as dead."""
        self._looked = self._timing.now()
        if sign != self._sign:
            self._sign, self._since = sign, self._looked
        return self._looked - self._since > self._timing.lock_patience_seconds


@dataclass(kw_only=True)
class Lock:
    """The lock of the ledger's target, for one process.

    :param staging: the staging tables, in the same database.
    :param node: the node on which the lock's tables are created.
    """

    client: ClickHouseClient
    ledger: Ledger
    staging: Staging
    identity: LoadIdentity
    node: str
    token: str
    timing: Timing

    @contextmanager
    def held(self, attempt: AttemptId | None = None, *, is_urgent: bool = False) -> Iterator[HeldLock]:
        """Wait for the lock, keep it alive, and release it at the end of the block.

        :param attempt: the attempt to be committed or abandoned.
        :param is_urgent: take over the lock from another process of the same try, too.
        :raises LockLostError: if another process took over the lock: then what was done has no effect.
        :raises OvertakenError: if a newer process of this task has the lock.
        """
        held = self._acquire(attempt, is_urgent=is_urgent)
        try:
            with self._kept_alive(held):
                yield held
        except ServerUnreachableError:
            # What was sent may still arrive: the lock is kept, so that the process that takes it over expects that.
            raise
        except BaseException as error:
            try:
                self._release(held)
            except LockLostError as lost:
                if isinstance(error, ServerError):
                    raise lost from error  # it failed because its tables were taken over
            except ChS3Error as failure:
                log.warning(
                    "cannot release the lock of %s; the next load will take it over: %s", self.ledger.target, failure
                )
            raise
        self._release(held)

    def drop_overtaken(self, held: HeldLock) -> None:
        """Drop the overtaken locks, once nothing of their owners can be committed any more.

        Until then, the locks tell the next process what to prevent, in case this process dies, too.
        """
        # A Replicated database shows each of them once for each node.
        for number, owner in dict.fromkeys((table.number, table.entry.attempt_id.prefix) for table in held.overtaken):
            log.warning("taking over the lock of %s of epoch %s from %s", self.ledger.target, number, owner)
        for table in held.overtaken:
            self._tables.drop(table.number, table.node)

    def _acquire(self, attempt: AttemptId | None, *, is_urgent: bool) -> HeldLock:
        entry = LockEntry(
            load_id=self.identity.load_id,
            generation=self.identity.generation,
            try_number=self.identity.try_number,
            attempt=attempt.number if attempt else 0,
            token=self.token,
            since=self.identity.since.timestamp(),
            name=str(self.identity),
        )
        queue = LockQueue(self._places, entry, self.ledger.target, self.timing)
        try:
            return self._wait_and_take(entry, queue, is_urgent=is_urgent)
        finally:
            queue.leave()

    def _wait_and_take(self, entry: LockEntry, queue: LockQueue, *, is_urgent: bool) -> HeldLock:
        observed = ObservedOwner(self.timing)
        last_epoch = self.ledger.last_epoch
        while True:
            # The tables first: a lock that is released in between has left its epoch in the ledger.
            state = self._read_state()
            owner = state.locks[-1] if state.locks else None
            ahead = [] if is_urgent else queue.find_ahead(state.queue, is_free=owner is None)
            if owner is None:
                may_take = not ahead
            else:
                # Whatever the queue is: who is ahead may be as dead as the owner.
                may_take = (
                    entry.outranks(owner.entry, self.ledger.target)
                    or (is_urgent and owner.entry.load_id == entry.load_id)
                    or self._is_silent(owner, observed, is_next=not ahead)
                )
            if not may_take:
                if owner is not None:
                    observed.log(owner.entry.name or owner.entry.load_id, self.ledger.target)
                if not is_urgent:
                    queue.join(state.queue)
                self.timing.sleep(queue.pause_seconds(len(ahead)))
                last_epoch = 0
                continue
            # Mostly nobody has had the lock since this process read the ledger; who did is found out below.
            last_epoch = last_epoch or self.ledger.read().epoch or self._first_epoch()
            epochs = [*(table.number for table in state.locks), *(table.epoch for table in state.staged)]
            epoch = max([last_epoch, *epochs]) + 1
            last_epoch = 0
            if self._create(epoch, entry):
                # Another process may have taken one since the first look, or this epoch on another node.
                now = self._read_state()
                others = {table for table in now.locks if table.entry.token != entry.token} - set(state.locks)
                history = self.ledger.read()
                # Another may have taken and released one since: an epoch must not be used twice. And the commits into
                # one table have one order, whatever its name was.
                last_epoch = max([history.epoch, *(earlier.epoch for _, earlier in self.ledger.read_earlier())])
                if last_epoch < epoch and not others:
                    self._begin(epoch, entry, first_open=history.first_open)
                    return HeldLock(
                        epoch=epoch, entry=entry, history=history, staged=now.staged, overtaken=state.locks
                    )
                self._tables.drop(epoch)
            self.timing.sleep(queue.pause_seconds(0))

    def _first_epoch(self) -> int:
        """The number before the first epoch of a new ledger.

        Query ids contain epochs, and the servers' logs remember the queries of a dropped ledger: so a later ledger
        has greater epochs. All processes get the same number in the same second, so only one of them can take the
        lock.
        """
        return int(self.timing.clock()) * EPOCHS_PER_SECOND

    def _release(self, held: HeldLock) -> None:
        if not self._tables.drop(held.epoch):
            held.when_lost()
            raise LockLostError(
                "lock-lost",
                f"another process has taken over the lock of {self.ledger.target}, because this one was too slow or"
                " is not the newest try of its task; the other process continues",
            )

    @contextmanager
    def _kept_alive(self, held: HeldLock) -> Iterator[None]:
        """Write a heartbeat every few seconds: a single statement may take longer than other processes wait."""
        over: list[bool] = []

        def beat() -> None:
            while True:
                self.timing.sleep(self.timing.heartbeat_seconds)
                if over:
                    return
                try:
                    self._write(EventKind.ALIVE, held.epoch, held.entry)
                except ChS3Error as error:
                    log.debug("the heartbeat could not be written: %s", error)

        threading.Thread(target=beat, name=f"{self._tables.prefix}{held.epoch}", daemon=True).start()
        try:
            yield
        finally:
            over.append(True)

    def _begin(self, epoch: int, entry: LockEntry, *, first_open: int) -> None:
        try:
            self._write(EventKind.LOCKED, epoch, entry, first_open=first_open)
        except ServerError:
            self._tables.drop(epoch)  # so that nobody waits until this owner is considered dead
            raise

    def _write(self, kind: EventKind, epoch: int, entry: LockEntry, *, first_open: int = 0) -> None:
        # An attempt has the number of the epoch that planned it, so the ledger has both in one order.
        held = AttemptId(load_id=entry.load_id, generation=entry.generation, number=epoch)
        detail = Locked(since=entry.since, token=entry.token)
        self.ledger.write(kind, held, detail, epoch=epoch, try_number=entry.try_number, first_open=first_open)

    def _is_silent(self, owner: LockTable, observed: ObservedOwner, *, is_next: bool) -> bool:
        """Whether the owner has had no heartbeat for so long that the owner counts as dead."""
        if not observed.is_look_due(owner.number, is_next=is_next):
            return False
        history = self.ledger.read()
        # The owner may be working on its own commit, or on one that another load left unfinished.
        busy = [attempt.id for attempt in history.unfinished]
        running = any(
            self.client.query(load_queries.render_running_queries(attempt.commit_prefix, self.ledger.cluster))
            for attempt in (owner.entry.attempt_id, *busy)
        )
        written = sum(event.epoch == owner.number for event in history.events)
        return observed.is_silent((owner.number, written, running and self.timing.now()))

    def is_anything_left(self) -> bool:
        """Whether the target has a lock, a place in the queue or a staging table."""
        state = self._read_state()
        return bool(state.locks or state.queue or state.staged)

    def _read_state(self) -> LockState:
        """Read all tables of the target."""
        prefixes = (self._tables.prefix, self._places.prefix, self.staging.prefix)
        rows = self.client.query(
            ledger_queries.render_read_tables(self.staging.database, prefixes, self.ledger.cluster)
        )
        return LockState(
            locks=self._tables.parse(rows),
            queue={table.number: table for table in self._places.parse(rows)},
            staged=self.staging.parse(rows),
        )

    @property
    def _tables(self) -> LockTables:
        return self._tables_of(lock_prefix(self.ledger.target))

    @property
    def _places(self) -> LockTables:
        return self._tables_of(queue_prefix(self.ledger.target))

    def _tables_of(self, prefix: str) -> LockTables:
        return LockTables(client=self.client, node=self.node, database=self.staging.database, prefix=prefix)

    def _create(self, epoch: int, entry: LockEntry) -> bool:
        try:
            return self._tables.create(epoch, entry)
        except ServerError as error:
            raise LoadError(
                "lock-failed", f"cannot lock {self.ledger.target}: {error.sentence}; nothing was changed"
            ) from error
