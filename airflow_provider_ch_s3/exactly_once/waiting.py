"""Wait for the owner of a lock: how often to look, and for how long it has given no new sign of life."""

from __future__ import annotations

import logging
import random
import time

from airflow_provider_ch_s3.pace import Pace
from airflow_provider_ch_s3.target import TableName
from airflow_provider_ch_s3.units import format_seconds

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
