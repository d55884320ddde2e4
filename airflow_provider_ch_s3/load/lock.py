"""The lock of a target: one load at a time plans, commits or gives up there.

ClickHouse has no compare-and-set, but of two that create the same table on one node one fails. A lock is a table
whose name ends in an epoch; epochs only rise. Whoever finds a lock of a dead owner creates the one of the next
epoch, and what the old owner still does is harmless: he works with staging tables that are renamed at once
(:meth:`Staging.claim`), and the ledger tells his late words from true ones.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from airflow_provider_ch_s3.errors import LoadError, OvertakenError, ServerError
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.load.codec import decode
from airflow_provider_ch_s3.load.ledger import Ledger
from airflow_provider_ch_s3.load.request import LoadIdentity
from airflow_provider_ch_s3.load.story import AttemptId, EventKind, Story
from airflow_provider_ch_s3.sql import ledger_queries, load_queries
from airflow_provider_ch_s3.target import TableName, short_hash

log = logging.getLogger(__name__)

TABLE_ALREADY_EXISTS = 57
UNKNOWN_TABLE = 60
# An owner that lives writes to the ledger, or runs a statement, more often than this.
LOCK_PATIENCE_SECONDS = 10.0
POLL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who holds a lock, as the comment of its table says.

    :param attempt: number of the attempt that is to be committed or given up; 0 while there is none.
    :param token: of one process.
    """

    load_id: str
    generation: int
    try_number: int
    attempt: int
    token: str

    @property
    def attempt_id(self) -> AttemptId:
        return AttemptId(load_id=self.load_id, generation=self.generation, number=self.attempt)


def parse_owner(comment: str) -> Owner:
    """Read the comment of a lock; an owner that says nothing of itself is another load, which lives or does not."""
    return decode(Owner, json.loads(comment), load_id="", generation=0, try_number=0, attempt=0, token="")


@dataclass(frozen=True, kw_only=True)
class Held:
    """A lock that was taken.

    :param story: the ledger as it was right after.
    :param overtaken: owners of older locks, who will never give them back.
    """

    epoch: int
    story: Story
    overtaken: Sequence[Owner]


@dataclass(kw_only=True)
class TargetLock:
    """The lock of the ledger's target."""

    client: ClickHouseClient
    ledger: Ledger
    identity: LoadIdentity
    sleep: Callable[[float], None] = time.sleep
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def _prefix(self) -> str:
        return f"ch_s3_lock_{short_hash(self.ledger.target)}_"

    def acquire(self, attempt: AttemptId | None = None, *, is_urgent: bool = False) -> Held:
        """Take the lock, or take it over.

        :param attempt: what is to be committed or given up.
        :param is_urgent: take it over from another process of the same try, too.
        :raises OvertakenError: if a newer try of the same task has it.
        """
        mine = Owner(
            load_id=self.identity.load_id,
            generation=self.identity.generation,
            try_number=self.identity.try_number,
            attempt=attempt.number if attempt else 0,
            token=self.token,
        )
        patience = _Patience()
        while True:
            # The locks first: one that is given back in between has left its epoch in the ledger.
            owners = self._read_owners()
            story = self.ledger.read()
            if owners and not (
                self._outranks(mine, owners[max(owners)], is_urgent=is_urgent)
                or self._is_silent(patience, owners[max(owners)], story)
            ):
                self.sleep(POLL_SECONDS)
                continue
            epoch = max(story.epoch, *owners, 0) + 1
            if self._create(epoch, mine):
                # Somebody may have come and gone since the ledger was read: an epoch must not be used twice.
                # Somebody may hold a lock that was not there when the owners were read, too.
                unknown = self._read_owners().keys() - owners.keys() - {epoch}
                story = self.ledger.read()
                if story.epoch < epoch and not unknown:
                    self._begin(epoch, mine, owners)
                    return Held(epoch=epoch, story=story, overtaken=list(owners.values()))
                self._drop_if_there(epoch)
                self.sleep(POLL_SECONDS)

    def release(self, epoch: int) -> None:
        """Give the lock back.

        :raises OvertakenError: if somebody took it over: then nobody waits for what this process did since.
        """
        try:
            self._drop(epoch)
        except ServerError as error:
            if error.code != UNKNOWN_TABLE:
                raise
            raise OvertakenError(
                f"another process took over the lock of {self.ledger.target} from this one, which was too slow or"
                " is not the newest try of its task; the other one goes on"
            ) from error

    def _begin(self, epoch: int, mine: Owner, owners: dict[int, Owner]) -> None:
        self.ledger.write(EventKind.LOCKED, mine.attempt_id, epoch=epoch, try_number=mine.try_number)
        for old in owners:
            log.warning("taking over the lock of %s from %s", self.ledger.target, owners[old].attempt_id.prefix)
            self._drop_if_there(old)

    def _drop_if_there(self, epoch: int) -> None:
        try:
            self._drop(epoch)
        except ServerError as error:
            if error.code != UNKNOWN_TABLE:
                raise

    def _outranks(self, mine: Owner, owner: Owner, *, is_urgent: bool) -> bool:
        if owner.load_id != mine.load_id:
            return False
        his_rank, my_rank = (owner.generation, owner.try_number), self.identity.rank
        if his_rank > my_rank:
            raise OvertakenError(
                f"try {owner.try_number} of this task works on {self.ledger.target}, so this one (try"
                f" {mine.try_number}) stops; nothing is left to do for it"
            )
        return his_rank < my_rank or is_urgent or owner.token == self.token

    def _is_silent(self, patience: _Patience, owner: Owner, story: Story) -> bool:
        # It may be at work on its own commit, or on one that another load left.
        busy = [attempt.id for attempt in story.attempts.values() if attempt.state is EventKind.COMMITTING]
        running = any(
            self.client.query(load_queries.render_running_queries(attempt.commit_prefix, self.ledger.cluster))
            for attempt in (owner.attempt_id, *busy)
        )
        return patience.is_over((owner.token, len(story.events), running and time.monotonic()))

    def _read_owners(self) -> dict[int, Owner]:
        database = self.ledger.target.database
        rows = self.client.query(ledger_queries.render_read_tables(database, self._prefix, self.ledger.cluster))
        return {int(row["name"].removeprefix(self._prefix)): parse_owner(row["comment"]) for row in rows}

    def _table(self, epoch: int) -> TableName:
        return TableName(database=self.ledger.target.database, table=f"{self._prefix}{epoch}")

    def _create(self, epoch: int, owner: Owner) -> bool:
        comment = json.dumps(dataclasses.asdict(owner))
        try:
            self.client.execute_once(partial(ledger_queries.render_create_lock, self._table(epoch), owner=comment))
        except ServerError as error:
            if error.code == TABLE_ALREADY_EXISTS:
                return False
            raise LoadError(f"cannot lock {self.ledger.target}: {error}; nothing was changed") from error
        return True

    def _drop(self, epoch: int) -> None:
        self.client.execute_once(partial(ledger_queries.render_drop_lock, self._table(epoch)))


class _Patience:
    """Notices that something has not changed for a while."""

    def __init__(self) -> None:
        self._sign: object = None
        self._since = time.monotonic()

    def is_over(self, sign: object) -> bool:
        """Whether this sign of life is as old as patience lasts."""
        if sign != self._sign:
            self._sign, self._since = sign, time.monotonic()
        return time.monotonic() - self._since > LOCK_PATIENCE_SECONDS
