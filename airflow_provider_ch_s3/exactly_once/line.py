"""The line of the processes that wait for the lock of a target.

Each process has a table ``ch_s3_wait_…`` with a place at the end of the name; a new place is the last in the line.
The line is a courtesy: nothing depends on the order, no error of the line fails a load, and a dead process in the
line delays the processes behind only for a while.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.exactly_once.claim import Claim, ClaimTable, ClaimTables
from airflow_provider_ch_s3.table.target import TableName, short_hash

log = get_log(__name__)


def line_prefix(target: TableName) -> str:
    """Prefix of the names of the tables of a table's line; a place follows."""
    return f"ch_s3_wait_{short_hash(target)}_"


class Line:
    """The line, as seen by a process that may have to stand there.

    :ivar place: the process's own place; 0 without a place.
    """

    def __init__(self, tables: ClaimTables, claim: Claim, target: TableName, timing: Timing) -> None:
        self.place = 0
        self._tables = tables
        self._claim = claim
        self._target = target
        self._timing = timing
        self._first: int | None = None
        self._since = 0.0

    def find_ahead(self, line: Mapping[int, ClaimTable], *, is_free: bool) -> list[int]:
        """Find the places of the processes that go first, and remove the places of processes that do not count.

        Older processes of the same load do not count; and if the first process does not take a free lock, no process
        ahead counts.

        :param line: place → who stands there.
        :param is_free: nobody has the lock.
        :raises OvertakenError: if a newer process of this load stands in line.
        """
        if self.place in line and line[self.place].claim.token != self._claim.token:
            self.place = 0  # it was removed, and is another one's now
        others = {place: table.claim for place, table in line.items() if place != self.place}
        gone = [place for place, claim in others.items() if self._claim.outranks(claim, self._target)]
        ahead = sorted(place for place in others.keys() - gone if place < self.place or not self.place)
        if self._is_stuck(ahead if is_free else []):
            gone, ahead = [*gone, *ahead], []
        for place in gone:
            self._drop(place, line[place].node)
        return ahead

    def join(self, line: Mapping[int, ClaimTable]) -> None:
        """Stand at the end, unless this process already stands in line."""
        if self.place in line:
            return
        self.place = max(line, default=0) + 1
        try:
            if not self._tables.create(self.place, self._claim):
                self.place = 0
        except ChS3Error as error:
            log.debug("it is not known whether this process stands in line: %s", error)

    def leave(self) -> None:
        """Leave the line, if this process stands there."""
        if self.place:
            self._drop(self.place)

    def pause_seconds(self, ahead: int) -> float:
        """Time until the next look: the first in line looks often; processes further behind look less often.

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
            log.debug("the place %s in the line stays until others pass it: %s", place, error)
