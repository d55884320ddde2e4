"""The lease of a target: only one load at a time plans, commits or abandons attempts there.

ClickHouse has no compare-and-set, but when two processes create the same table on one node, one of them fails. A
lease is a table whose name ends in an epoch, a fencing token: epochs only increase. A process that finds the lease of
a dead owner creates that of the next epoch. What the old owner still does is harmless: the staging tables that it
works with are renamed at once (:meth:`Staging.claim`), and its late events in the ledger are distinguished from valid
ones by their epoch.

The tables are created on the first node in the order of the nodes' own names, so that it does not matter how a
connection calls them. While processes disagree about it, because a node was added, the same epoch may be taken on two
nodes: a process that sees this releases its own. Users see them as ``ch_s3_lock_…``.

Who has to wait stands in line: with a table ``ch_s3_wait_…`` whose name ends in a place, one later than all others.
The line is a courtesy: whoever does not take a free lease in time is passed, and nothing depends on the order.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.common.text import format_seconds
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ErrorCode,
    LoadError,
    LockLostError,
    OvertakenError,
    ServerError,
    ServerUnreachableError,
)
from airflow_provider_ch_s3.exactly_once.history import AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.staging import Staging, StagingTable
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.sql import ledger_queries, load_queries
from airflow_provider_ch_s3.table.target import TableName, short_hash

log = logging.getLogger(__name__)

# More than any table is locked; with it, a ledger's epochs stay behind the clock.
EPOCHS_PER_SECOND = 100
LOCK_PREFIX = "ch_s3_lock_"
_WAIT_PREFIX = "ch_s3_wait_"


def lock_prefix(target: TableName) -> str:
    """Prefix of the names of a table's lease tables; an epoch follows."""
    return f"{LOCK_PREFIX}{short_hash(target)}_"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Who has a lease, and for what; stored in the comment of its table.

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


def parse_claim(comment: str) -> Claim:
    """Parse the comment of a lease table; an owner that it does not identify is another load, alive or dead."""
    return decode(Claim, json.loads(comment), load_id="", generation=0, try_number=0, attempt=0, token="")


@dataclass(frozen=True, kw_only=True, order=True)
class LeaseTable:
    """One lease, as its table shows it."""

    epoch: int
    node: str
    claim: Claim = field(compare=False)


@dataclass(kw_only=True)
class HeldLease:
    """A lease that this process has.

    :param history: the ledger as it was right after the lease was taken.
    :param staged: the staging tables that were there then, and the nodes that have them.
    :param overtaken: older ones, whose owners count as dead.
    :param when_lost: called when it turns out that another process has taken it over.
    """

    epoch: int
    claim: Claim
    history: History
    staged: Mapping[StagingTable, set[str]]
    overtaken: Sequence[LeaseTable]
    when_lost: Callable[[], None] = lambda: None

    @property
    def overtaken_attempts(self) -> list[AttemptId]:
        """What their owners were about to commit or abandon."""
        return sorted({table.claim.attempt_id for table in self.overtaken if table.claim.attempt})


@dataclass(frozen=True, kw_only=True)
class Look:
    """The tables of a target, as they were at one moment.

    :param leases: the latest one last.
    :param line: place → who waits there for the lease; the first one goes next.
    :param staged: the staging tables, and the nodes that have them.
    """

    leases: Sequence[LeaseTable]
    line: Mapping[int, Claim]
    staged: Mapping[StagingTable, set[str]]


class Waiting:
    """One process that waits for a lease.

    :ivar place: in the line; 0 while it has none.
    """

    def __init__(self, timing: Timing) -> None:
        self.place = 0
        self._timing = timing
        self._pace = timing.pace()
        self._began = self._looked = self._since = self._passed = timing.now()
        self._token = ""
        self._sign: object = None
        self._next: int | None = None

    def pause_seconds(self, ahead: int) -> float:
        """Time until the next look: the first in line looks often, and who is behind need not.

        :param ahead: how many go first.
        """
        # Not all at the same moments: processes that wait for the same lease would keep colliding.
        pause = self._timing.lease_poll_seconds * random.uniform(0.3, 0.7) * (1 + ahead)
        return min(pause, self._timing.lease_patience_seconds / 4)

    def is_stuck(self, place: int | None) -> bool:
        """Whether this place has been next for so long that its process is considered dead.

        :param place: the first one, while nobody has the lease.
        """
        now = self._timing.now()
        if place != self._next:
            self._next, self._passed = place, now
        return place is not None and now - self._passed > self._timing.lease_patience_seconds

    def log(self, owner: str, target: TableName) -> None:
        """Log who has the lease: at once, and again every half minute."""
        if self._pace.is_due(owner):
            waited = format_seconds(self._timing.now() - self._began)
            log.info("waiting for %s, which has locked %s; waited for %s so far", owner, target, waited)

    def is_look_due(self, token: str) -> bool:
        """Whether to look for signs of life: an owner that has the lease for a moment needs to give none.

        :param token: identifies the owner.
        """
        now = self._timing.now()
        if token != self._token:
            self._token, self._looked = token, now
        return now - self._looked > self._timing.lease_patience_seconds / 4

    def is_silent(self, sign: object) -> bool:
        """Whether this has been the owner's latest sign of life for so long that it is considered dead."""
        self._looked = self._timing.now()
        if sign != self._sign:
            self._sign, self._since = sign, self._looked
        return self._looked - self._since > self._timing.lease_patience_seconds


@dataclass(kw_only=True)
class Lease:
    """The lease of the ledger's target, for one process.

    :param staging: the staging tables, which are in the same database.
    :param node: the one on which its tables are created.
    """

    client: ClickHouseClient
    ledger: Ledger
    staging: Staging
    identity: LoadIdentity
    node: str
    token: str
    timing: Timing

    @contextmanager
    def held(self, attempt: AttemptId | None = None, *, is_urgent: bool = False) -> Iterator[HeldLease]:
        """Wait for the lease, keep it alive, and release it at the end of the block.

        :param attempt: the one that is to be committed or abandoned.
        :param is_urgent: take it over from another process of the same try, too.
        :raises LockLostError: if another process took it over: then what was done has no effect.
        :raises OvertakenError: if a newer process of this task has it.
        """
        held = self._acquire(attempt, is_urgent=is_urgent)
        try:
            with self._kept_alive(held):
                yield held
        except ServerUnreachableError:
            # What was sent may still arrive: the lease is kept, so that the process that takes it over expects that.
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

    def is_last_of_task(self, history: History) -> bool:
        """Whether no other process of the same task has had the lease since this one did."""
        locked = [event for event in history.claims_of(self.identity.load_id) if event.kind is EventKind.LOCKED]
        return not locked or locked[-1].detail.get("token") == self.token

    def drop_overtaken(self, held: HeldLease) -> None:
        """Drop the leases that were taken over, when nothing of their owners can be committed any more.

        Until then they tell the next process what it has to prevent, in case that this one dies, too.
        """
        for table in held.overtaken:
            log.warning("taking over the lock of %s from %s", self.ledger.target, table.claim.attempt_id.prefix)
            # A Replicated database has it on every node, and drops it on all of them through any.
            node = table.node if table.node in self.client.reachable else self.node
            self._drop_if_there(self._table(table.epoch), node)

    def _acquire(self, attempt: AttemptId | None, *, is_urgent: bool) -> HeldLease:
        claim = Claim(
            load_id=self.identity.load_id,
            generation=self.identity.generation,
            try_number=self.identity.try_number,
            attempt=attempt.number if attempt else 0,
            token=self.token,
            since=self.identity.since.timestamp(),
            name=str(self.identity),
        )
        waiting = Waiting(self.timing)
        try:
            return self._wait_and_take(claim, waiting, is_urgent=is_urgent)
        finally:
            self._leave(waiting.place)

    def _wait_and_take(self, claim: Claim, waiting: Waiting, *, is_urgent: bool) -> HeldLease:
        last_epoch = self.ledger.last_epoch
        while True:
            # The tables first: a lease that is released in between has left its epoch in the ledger.
            look = self._look()
            owner = look.leases[-1] if look.leases else None
            goes_first = owner is not None and self._outranks(claim, owner.claim, is_urgent=is_urgent)
            ahead = [] if goes_first or is_urgent else self._find_ahead(look, claim, waiting)
            if ahead or (owner is not None and not goes_first and not self._is_silent(waiting, owner)):
                if owner is not None:
                    waiting.log(owner.claim.name or owner.claim.load_id, self.ledger.target)
                if not is_urgent and waiting.place not in look.line:
                    place = max(look.line, default=0) + 1
                    waiting.place = place if self._create(self._place(place), claim) else 0
                self.timing.sleep(waiting.pause_seconds(len(ahead)))
                last_epoch = 0
                continue
            # Mostly nobody has had the lease since this process read the ledger; who did is found out below.
            last_epoch = last_epoch or self.ledger.read().epoch or self._first_epoch()
            epochs = [*(table.epoch for table in look.leases), *(table.epoch for table in look.staged)]
            epoch = max([last_epoch, *epochs]) + 1
            last_epoch = 0
            if self._create(self._table(epoch), claim):
                # Another process may have taken one since the first look, or this epoch on another node.
                now = self._look()
                others = {table for table in now.leases if table.claim.token != claim.token} - set(look.leases)
                history = self.ledger.read()
                # Another may have taken and released one since: an epoch must not be used twice. And the commits into
                # one table have one order, whatever its name was.
                last_epoch = max([history.epoch, *(earlier.epoch for _, earlier in self.ledger.read_earlier())])
                if last_epoch < epoch and not others:
                    self._begin(epoch, claim, first_open=history.first_open)
                    return HeldLease(
                        epoch=epoch, claim=claim, history=history, staged=now.staged, overtaken=look.leases
                    )
                self._drop_if_there(self._table(epoch), self.node)
            self.timing.sleep(waiting.pause_seconds(0))

    def _find_ahead(self, look: Look, own: Claim, waiting: Waiting) -> list[int]:
        # Another process may have taken one since the first look, or this epoch on another node.
        for place, claim in look.line.items():
            if claim.load_id == own.load_id and claim.token != own.token:
                self._leave(place)
        ahead = sorted(
            place
            for place, claim in look.line.items()
            if claim.load_id != own.load_id and not 0 < waiting.place < place
        )
        if waiting.is_stuck(ahead[0] if ahead and not look.leases else None):
            self._leave(ahead.pop(0))
        return ahead

    def _leave(self, place: int) -> None:
        """Leave the line, or remove somebody else from it."""
        if not place:
            return
        try:
            self._drop_if_there(self._place(place), self.node)
        except ChS3Error as error:
            log.debug("the place in the line stays until others pass it: %s", error)

    def _first_epoch(self) -> int:
        """What the epochs of a new ledger come after.

        They are in the ids of queries, which the servers' logs remember when a ledger was dropped and created again:
        so a later ledger has greater ones. The same second is the same number, so that only one process can lock it.
        """
        return int(self.timing.clock()) * EPOCHS_PER_SECOND

    def _release(self, held: HeldLease) -> None:
        try:
            self._drop(self._table(held.epoch), self.node)
        except ServerError as error:
            if error.code != ErrorCode.UNKNOWN_TABLE:
                raise
            held.when_lost()
            raise LockLostError(
                f"another process has taken over the lock of {self.ledger.target}, because this one was too slow or"
                " is not the newest try of its task; the other process continues"
            ) from error

    @contextmanager
    def _kept_alive(self, held: HeldLease) -> Iterator[None]:
        """Write a heartbeat every few seconds: a single statement may take longer than other processes wait."""
        over: list[bool] = []

        def beat() -> None:
            while True:
                self.timing.sleep(self.timing.heartbeat_seconds)
                if over:
                    return
                try:
                    self._write(EventKind.ALIVE, held.epoch, held.claim)
                except ChS3Error as error:
                    log.debug("the heartbeat could not be written: %s", error)

        threading.Thread(target=beat, name=f"{self._prefix}{held.epoch}", daemon=True).start()
        try:
            yield
        finally:
            over.append(True)

    def _begin(self, epoch: int, claim: Claim, *, first_open: int) -> None:
        try:
            self._write(EventKind.LOCKED, epoch, claim, first_open=first_open)
        except ServerError:
            self._drop_if_there(
                self._table(epoch), self.node
            )  # so that nobody waits until this owner is considered dead
            raise

    def _write(self, kind: EventKind, epoch: int, claim: Claim, *, first_open: int = 0) -> None:
        # An attempt has the number of the epoch that planned it, so the ledger has both in one order.
        held = AttemptId(load_id=claim.load_id, generation=claim.generation, number=epoch)
        detail = {"since": claim.since, "token": claim.token}
        self.ledger.write(kind, held, epoch=epoch, try_number=claim.try_number, detail=detail, first_open=first_open)

    def _drop_if_there(self, table: TableName, node: str) -> None:
        try:
            self._drop(table, node)
        except ServerError as error:
            if error.code != ErrorCode.UNKNOWN_TABLE:
                raise

    def _outranks(self, claimant: Claim, owner: Claim, *, is_urgent: bool) -> bool:
        if owner.load_id != claimant.load_id:
            return False
        if owner.rank > claimant.rank:
            raise OvertakenError(
                f"try {owner.try_number} of this task has taken over the load into {self.ledger.target}; stopping try"
                f" {claimant.try_number}, no action needed"
            )
        return owner.rank < claimant.rank or is_urgent or owner.token == self.token

    def _is_silent(self, waiting: Waiting, table: LeaseTable) -> bool:
        """Whether the owner has given no sign of life for so long that it is considered dead."""
        if not waiting.is_look_due(table.claim.token):
            return False
        history = self.ledger.read()
        # The owner may be working on its own commit, or on one that another load left unfinished.
        busy = [attempt.id for attempt in history.attempts.values() if attempt.state is EventKind.COMMITTING]
        running = any(
            self.client.query(load_queries.render_running_queries(attempt.commit_prefix, self.ledger.cluster))
            for attempt in (table.claim.attempt_id, *busy)
        )
        written = sum(event.epoch == table.epoch for event in history.events)
        return waiting.is_silent((table.claim.token, written, running and self.timing.now()))

    def is_anything_left(self) -> bool:
        """Whether a lease or a staging table of the target is there."""
        look = self._look()
        return bool(look.leases or look.staged)

    def _look(self) -> Look:
        """Read all tables of the target."""
        prefixes = (self._prefix, self._wait_prefix, self.staging.prefix)
        rows = self.client.query(
            ledger_queries.render_read_tables(self.staging.database, prefixes, self.ledger.cluster)
        )
        leases = sorted(
            LeaseTable(
                epoch=int(row["name"].removeprefix(self._prefix)),
                node=row["node"],
                claim=parse_claim(row["comment"]),
            )
            for row in rows
            if row["name"].startswith(self._prefix)
        )
        line = {
            int(row["name"].removeprefix(self._wait_prefix)): parse_claim(row["comment"])
            for row in rows
            if row["name"].startswith(self._wait_prefix)
        }
        return Look(leases=leases, line=line, staged=self.staging.parse(rows))

    @property
    def _prefix(self) -> str:
        return lock_prefix(self.ledger.target)

    @property
    def _wait_prefix(self) -> str:
        return f"{_WAIT_PREFIX}{short_hash(self.ledger.target)}_"

    def _place(self, place: int) -> TableName:
        return TableName(database=self.staging.database, table=f"{self._wait_prefix}{place}")

    def _table(self, epoch: int) -> TableName:
        return TableName(database=self.staging.database, table=f"{self._prefix}{epoch}")

    def _create(self, table: TableName, claim: Claim) -> bool:
        comment = json.dumps(dataclasses.asdict(claim))
        statement = ledger_queries.render_create_lock(table, owner=comment)
        try:
            self.client.execute_on([self.node], statement)
        except ServerError as error:
            if error.code == ErrorCode.TABLE_ALREADY_EXISTS:
                return False
            raise LoadError(f"cannot lock {self.ledger.target}: {error}; nothing was changed") from error
        return True

    def _drop(self, table: TableName, node: str) -> None:
        self.client.execute_on([node], ledger_queries.render_drop_lock(table))
