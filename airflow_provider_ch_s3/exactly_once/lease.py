"""The lock of a target: only one load at a time plans, commits or abandons attempts there.

ClickHouse has no compare-and-set, but when two processes create the same table on one node, one of them fails. A lock
is a table whose name ends in an epoch, a fencing token: epochs only increase. A process that finds the lock of a dead
owner creates the lock of the next epoch. What the old owner still does is harmless: the staging tables that it works
with are renamed at once (:meth:`Staging.claim`), and its late events in the ledger are distinguished from valid ones
by their epoch.

Locks are created on the first node in the order of the nodes' own names, so that it does not matter how a connection
calls them. While processes disagree about it, because a node was added, the same epoch may be locked on two nodes: a
process that sees this releases its lock.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.common.text import format_seconds
from airflow_provider_ch_s3.common.work import Pace
from airflow_provider_ch_s3.errors import ChS3Error, ErrorCode, LoadError, LockLostError, OvertakenError, ServerError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.sql import ledger_queries, load_queries
from airflow_provider_ch_s3.table.target import TableName, short_hash

log = logging.getLogger(__name__)


class Waiting:
    """One process that waits for a lock.

    :param patience_seconds: an owner that has given no sign of life for longer is considered dead.
    :param poll_seconds: mean time between two looks at the lock, in the beginning.
    """

    def __init__(self, *, patience_seconds: float, poll_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._poll_seconds = poll_seconds
        self._pace = Pace()
        self._began = self._looked = self._since = time.monotonic()
        self._token = ""
        self._sign: object = None

    @property
    def pause_seconds(self) -> float:
        """Time until the next look at the lock: who has waited for longer looks more often, and so gets it sooner."""
        waited = (time.monotonic() - self._began) / self._patience_seconds
        # Not all at the same moments: processes that wait for the same lock would keep colliding.
        return self._poll_seconds * random.uniform(0.5, 1.5) * max(0.2, 1 / (1 + waited))

    def log(self, owner: str, target: TableName) -> None:
        """Log who has the lock: at once, and again every half minute."""
        if self._pace.is_due(owner):
            waited = format_seconds(time.monotonic() - self._began)
            log.info("waiting for %s, which has locked %s; waited for %s so far", owner, target, waited)

    def is_look_due(self, token: str) -> bool:
        """Whether to look for signs of life: an owner that has the lock for a moment needs to give none.

        :param token: identifies the owner.
        """
        now = time.monotonic()
        if token != self._token:
            self._token, self._looked = token, now
        return now - self._looked > self._patience_seconds / 4

    def is_silent(self, sign: object) -> bool:
        """Whether this has been the owner's latest sign of life for so long that it is considered dead."""
        self._looked = time.monotonic()
        if sign != self._sign:
            self._sign, self._since = sign, self._looked
        return self._looked - self._since > self._patience_seconds


# An owner that is alive writes to the ledger, or runs a statement, more often than this.
LOCK_PATIENCE_SECONDS = 10.0
HEARTBEAT_SECONDS = 3.0
POLL_SECONDS = 0.5

# More than any table is locked; with it, a ledger's epochs stay behind the clock.
EPOCHS_PER_SECOND = 100

LOCK_PREFIX = "ch_s3_lock_"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The owner of a lock, stored in the comment of its table.

    :param attempt: number of the attempt that is to be committed or abandoned; 0 while there is none.
    :param token: identifies one process.
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


def first_epoch() -> int:
    """What the epochs of a new ledger come after.

    They are in the ids of queries, which the servers' logs remember when a ledger was dropped and created again: so a
    later ledger has greater ones. The same second is the same number, so that only one process can lock it.
    """
    return int(time.time()) * EPOCHS_PER_SECOND


def lock_prefix(target: TableName) -> str:
    """Prefix of the names of the locks of a table; an epoch follows."""
    return f"{LOCK_PREFIX}{short_hash(target)}_"


def parse_owner(comment: str) -> Owner:
    """Parse the comment of a lock; an owner that it does not identify counts as another load, alive or dead."""
    return decode(Owner, json.loads(comment), load_id="", generation=0, try_number=0, attempt=0, token="")


@dataclass(frozen=True, kw_only=True, order=True)
class Lock:
    """One lock table."""

    epoch: int
    node: str
    owner: Owner = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class AcquiredLock:
    """A lock that this process holds.

    :param history: the ledger as it was right after the lock was taken.
    :param overtaken: older locks, whose owners count as dead.
    """

    epoch: int
    owner: Owner
    history: History
    overtaken: Sequence[Lock]

    @property
    def overtaken_attempts(self) -> list[AttemptId]:
        """What their owners were about to commit or abandon."""
        return sorted({lock.owner.attempt_id for lock in self.overtaken if lock.owner.attempt})


@dataclass(kw_only=True)
class TargetLock:
    """The lock of the ledger's target.

    :param node: the one on which locks are created.
    :param read_floor: reads the last epoch of the names that the table had before, so that the commits into one table
        have one order, whatever its name was; and of staging tables, which an owner with another ledger may have
        taken. Each epoch is later than those.
    """

    client: ClickHouseClient
    ledger: Ledger
    identity: LoadIdentity
    node: str
    token: str
    sleep: Callable[[float], None] = time.sleep
    read_floor: Callable[[], int] = lambda: 0

    @property
    def _prefix(self) -> str:
        return lock_prefix(self.ledger.target)

    def acquire(self, attempt: AttemptId | None = None, *, is_urgent: bool = False) -> AcquiredLock:
        """Take the lock, or take it over from another owner.

        :param attempt: the one that is to be committed or abandoned.
        :param is_urgent: take it over from another process of the same try, too.
        :raises OvertakenError: if a newer try of the same task holds it.
        """
        owner = Owner(
            load_id=self.identity.load_id,
            generation=self.identity.generation,
            try_number=self.identity.try_number,
            attempt=attempt.number if attempt else 0,
            token=self.token,
            since=self.identity.since.timestamp(),
            name=str(self.identity),
        )
        waiting = Waiting(patience_seconds=LOCK_PATIENCE_SECONDS, poll_seconds=POLL_SECONDS)
        last_epoch = self.ledger.last_epoch
        while True:
            # The locks first: one that is released in between has left its epoch in the ledger.
            locks = self._read_locks()
            if (
                locks
                and not self._outranks(owner, locks[-1].owner, is_urgent=is_urgent)
                and not self._is_silent(waiting, locks[-1])
            ):
                waiting.log(locks[-1].owner.name or locks[-1].owner.load_id, self.ledger.target)
                self.sleep(waiting.pause_seconds)
                last_epoch = 0
                continue
            # Mostly nobody has locked the target since this process read the ledger; who did is found out below.
            last_epoch = last_epoch or self.ledger.read().epoch or first_epoch()
            epoch = max([last_epoch, self.read_floor(), *(lock.epoch for lock in locks)]) + 1
            if self._create(epoch, owner):
                # Another process may have taken and released a lock since: an epoch must not be used twice.
                # Another may hold a lock that was not there when the locks were read, or this epoch on another node.
                others = {lock for lock in self._read_locks() if lock.owner.token != owner.token} - set(locks)
                history = self.ledger.read()
                if history.epoch < epoch and not others:
                    self._begin(epoch, owner, first_open=history.first_open)
                    return AcquiredLock(epoch=epoch, owner=owner, history=history, overtaken=locks)
                self._drop_if_there(epoch, self.node)
            self.sleep(waiting.pause_seconds)
            last_epoch = 0

    def release(self, epoch: int) -> None:
        """Release the lock.

        :raises LockLostError: if it was taken over: then what this process did since has no effect.
        """
        try:
            self._drop(epoch, self.node)
        except ServerError as error:
            if error.code != ErrorCode.UNKNOWN_TABLE:
                raise
            raise LockLostError(
                f"another process has taken over the lock of {self.ledger.target}, because this one was too slow or"
                " is not the newest try of its task; the other process continues"
            ) from error

    def is_last_of_task(self, history: History) -> bool:
        """Whether no other process of the same task has held the lock since this one did."""
        locked = [event for event in history.claims_of(self.identity.load_id) if event.kind is EventKind.LOCKED]
        return not locked or locked[-1].detail.get("token") == self.token

    @contextmanager
    def kept_alive(self, acquired: AcquiredLock) -> Iterator[None]:
        """Write a heartbeat every few seconds: a single statement may take longer than other processes wait."""
        over: list[bool] = []

        def beat() -> None:
            while True:
                self.sleep(HEARTBEAT_SECONDS)
                if over:
                    return
                try:
                    self._write(EventKind.ALIVE, acquired.epoch, acquired.owner)
                except ChS3Error as error:
                    log.debug("the heartbeat could not be written: %s", error)

        threading.Thread(target=beat, name=f"{self._prefix}{acquired.epoch}", daemon=True).start()
        try:
            yield
        finally:
            over.append(True)

    def drop_overtaken(self, acquired: AcquiredLock) -> None:
        """Drop the locks that were taken over, when nothing of their owners can be committed any more.

        Until then they tell the next process what it has to prevent, in case that this one dies, too.
        """
        for lock in acquired.overtaken:
            log.warning("taking over the lock of %s from %s", self.ledger.target, lock.owner.attempt_id.prefix)
            # A Replicated database has it on every node, and drops it on all of them through any.
            self._drop_if_there(lock.epoch, lock.node if lock.node in self.client.reachable else self.node)

    def _begin(self, epoch: int, owner: Owner, *, first_open: int) -> None:
        try:
            self._write(EventKind.LOCKED, epoch, owner, first_open=first_open)
        except ServerError:
            self._drop_if_there(epoch, self.node)  # so that nobody waits until this owner is considered dead
            raise

    def _write(self, kind: EventKind, epoch: int, owner: Owner, *, first_open: int = 0) -> None:
        # An attempt has the number of the epoch that planned it, so the ledger has both in one order.
        lock = AttemptId(load_id=owner.load_id, generation=owner.generation, number=epoch)
        detail = {"since": owner.since, "token": owner.token}
        self.ledger.write(kind, lock, epoch=epoch, try_number=owner.try_number, detail=detail, first_open=first_open)

    def _drop_if_there(self, epoch: int, node: str) -> None:
        try:
            self._drop(epoch, node)
        except ServerError as error:
            if error.code != ErrorCode.UNKNOWN_TABLE:
                raise

    def _outranks(self, claimant: Owner, owner: Owner, *, is_urgent: bool) -> bool:
        if owner.load_id != claimant.load_id:
            return False
        if owner.rank > claimant.rank:
            raise OvertakenError(
                f"try {owner.try_number} of this task has taken over the load into {self.ledger.target}; stopping try"
                f" {claimant.try_number}, no action needed"
            )
        return owner.rank < claimant.rank or is_urgent or owner.token == self.token

    def _is_silent(self, waiting: Waiting, lock: Lock) -> bool:
        """Whether the owner has given no sign of life for so long that it is considered dead."""
        if not waiting.is_look_due(lock.owner.token):
            return False
        history = self.ledger.read()
        # The owner may be working on its own commit, or on one that another load left unfinished.
        busy = [attempt.id for attempt in history.attempts.values() if attempt.state is EventKind.COMMITTING]
        running = any(
            self.client.query(load_queries.render_running_queries(attempt.commit_prefix, self.ledger.cluster))
            for attempt in (lock.owner.attempt_id, *busy)
        )
        written = sum(event.epoch == lock.epoch for event in history.events)
        return waiting.is_silent((lock.owner.token, written, running and time.monotonic()))

    def _read_locks(self) -> list[Lock]:
        """Read all locks of the target, the latest one last."""
        database = self.ledger.target.database
        rows = self.client.query(ledger_queries.render_read_tables(database, self._prefix, self.ledger.cluster))
        return sorted(
            Lock(
                epoch=int(row["name"].removeprefix(self._prefix)),
                node=row["node"],
                owner=parse_owner(row["comment"]),
            )
            for row in rows
        )

    def _table(self, epoch: int) -> TableName:
        return TableName(database=self.ledger.target.database, table=f"{self._prefix}{epoch}")

    def _create(self, epoch: int, owner: Owner) -> bool:
        comment = json.dumps(dataclasses.asdict(owner))
        statement = ledger_queries.render_create_lock(self._table(epoch), owner=comment)
        try:
            self.client.execute_on([self.node], statement)
        except ServerError as error:
            if error.code == ErrorCode.TABLE_ALREADY_EXISTS:
                return False
            raise LoadError(f"cannot lock {self.ledger.target}: {error}; nothing was changed") from error
        return True

    def _drop(self, epoch: int, node: str) -> None:
        self.client.execute_on([node], ledger_queries.render_drop_lock(self._table(epoch)))
