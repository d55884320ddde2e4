"""Who may write to a target: a process that holds its lock, for the length of a block."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_ch_s3.errors import ChS3Error, LockLostError, ServerError, ServerUnreachableError
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.lock import TargetLock
from airflow_provider_ch_s3.exactly_once.locked_target import LockedTarget
from airflow_provider_ch_s3.exactly_once.staging import Staging
from airflow_provider_ch_s3.protocols import ClickHouseClient

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TargetLocking:
    """Locks one target for one process."""

    client: ClickHouseClient
    ledger: Ledger
    staging: Staging
    lock: TargetLock
    sleep: Callable[[float], None]

    @contextmanager
    def hold(self, attempt: Attempt | None = None, *, is_urgent: bool = False) -> Iterator[LockedTarget]:
        """Wait for the lock, and release it at the end of the block.

        :param attempt: what is to be committed or given up.
        :raises LockLostError: if another process took the lock over, so that what was done has no effect.
        :raises OvertakenError: if a newer process of this task has the lock.
        """
        held = self.lock.acquire(attempt.id if attempt else None, is_urgent=is_urgent)
        locked = LockedTarget(
            client=self.client,
            ledger=self.ledger,
            staging=self.staging,
            epoch=held.epoch,
            load_id=self.lock.identity.load_id,
            try_number=self.lock.identity.try_number,
            sleep=self.sleep,
        )
        try:
            with self.lock.kept_alive(held):
                locked.tidy_up(held)
                yield locked
        except ServerUnreachableError:
            # What was sent may arrive still: the lock stays, so that whoever takes it over expects that.
            raise
        except BaseException as error:
            try:
                self._give_back(locked)
            except LockLostError as lost:
                if isinstance(error, ServerError):
                    raise lost from error  # its tables were taken from it
            except ChS3Error as left:
                log.warning("the lock of %s stays, the next load takes it over: %s", self.ledger.target, left)
            raise
        self._give_back(locked)

    def tidy_up(self) -> None:
        """Remove what earlier processes could not.

        :raises LockLostError: as :meth:`hold`.
        """
        with self.hold():
            pass  # each owner does so first

    def _give_back(self, locked: LockedTarget) -> None:
        try:
            self.lock.release(locked.epoch)
        except LockLostError:
            locked.take_back()
            raise
