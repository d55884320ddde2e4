"""The queue of the processes that wait for the lock of a target.

Each process has a table ``ch_s3_wait_…`` with a place at the end of the name; a new place is the last in the queue.
The queue is a courtesy: nothing depends on the order, no error of the queue fails a load, and a dead process in the
queue delays the processes behind only for a while.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.exactly_once.lock_tables import LockEntry, LockTable, LockTables
from airflow_provider_ch_s3.table.target import TableName, short_hash

log = get_log(__name__)


def queue_prefix(target: TableName) -> str:
    """Prefix of the names of the tables of a target's queue; a place follows."""
    return f"ch_s3_wait_{short_hash(target)}_"


class LockQueue:
    """The queue, as seen by a process that may have to wait there.

    :ivar place: the process's own place; 0 without a place.
    """

    def __init__(self, tables: LockTables, entry: LockEntry, target: TableName, timing: Timing) -> None:
        self.place = 0
        self._tables = tables
        self._entry = entry
        self._target = target
        self._timing = timing
        self._first: int | None = None
        self._since = 0.0

    def find_ahead(self, queue: Mapping[int, LockTable], *, is_free: bool) -> list[int]:
        """Find the places of the processes that go first, and remove the places of processes that do not count.

        Older processes of the same load do not count; and if the first process does not take a free lock, no process
        ahead counts.

        :param queue: place → who waits there.
        :param is_free: nobody has the lock.
        :raises OvertakenError: if a newer process of this load waits in the queue.
        """
        if self.place in queue and queue[self.place].entry.token != self._entry.token:
            self.place = 0  # it was removed, and is another one's now
        others = {place: table.entry for place, table in queue.items() if place != self.place}
        gone = [place for place, entry in others.items() if self._entry.outranks(entry, self._target)]
        ahead = sorted(place for place in others.keys() - gone if place < self.place or not self.place)
        if self._is_stuck(ahead if is_free else []):
            gone, ahead = [*gone, *ahead], []
        for place in gone:
            self._drop(place, queue[place].node)
        return ahead

    def join(self, queue: Mapping[int, LockTable]) -> None:
        """Take the last place, unless this process already has a place."""
        if self.place in queue:
            return
        self.place = max(queue, default=0) + 1
        try:
            if not self._tables.create(self.place, self._entry):
                self.place = 0
        except ChS3Error as error:
            log.debug("it is not known whether this process has a place in the queue: %s", error)

    def leave(self) -> None:
        """Leave the queue, if this process has a place there."""
        if self.place:
            self._drop(self.place)

    def pause_seconds(self, ahead: int) -> float:
        """Time until the next look: the first in the queue looks often; processes further behind look less often.

        :param ahead: how many go first.
        """
        # Not all at the same moments: processes that wait for the same lock would keep colliding.
        pause = self._timing.lock_poll_seconds * random.uniform(0.3, 0.7) * (1 + ahead)
        return min(pause, self._longest_pause)

    @property
    def _longest_pause(self) -> float:
        return self._timing.lock_patience_seconds / 4

    def _is_stuck(self, ahead: list[int]) -> bool:
        now = self._timing.now()
        first = min(ahead, default=None)
        if first != self._first:
            self._first, self._since = first, now
        # Who is behind waits longer, by more than a pause: so the first one that is alive goes first.
        return (
            first is not None
            and now - self._since > self._timing.lock_patience_seconds + self._longest_pause * len(ahead)
        )

    def _drop(self, place: int, node: str = "") -> None:
        try:
            self._tables.drop(place, node)
        except ChS3Error as error:
            log.debug("the place %s in the queue stays until others pass it: %s", place, error)
