"""Hold the lock of a target for the length of a block: only then may a process write to the target."""

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

        :param attempt: the one that is to be committed or abandoned.
        :raises LockLostError: if another process took over the lock, so that what was done has no effect.
        :raises OvertakenError: if a newer process of this task holds the lock.
        """
        acquired = self.lock.acquire(attempt.id if attempt else None, is_urgent=is_urgent)
        locked = LockedTarget(
            client=self.client,
            ledger=self.ledger,
            staging=self.staging,
            epoch=acquired.epoch,
            load_id=self.lock.identity.load_id,
            try_number=self.lock.identity.try_number,
            sleep=self.sleep,
        )
        try:
            with self.lock.kept_alive(acquired):
                locked.fence(acquired.overtaken_attempts)
                self.lock.drop_overtaken(acquired)
                # An owner that was overtaken while it was still working may have written something since.
                history = self.ledger.read() if acquired.overtaken else acquired.history
                locked.tidy_up(history, acquired.overtaken_attempts)
                yield locked
        except ServerUnreachableError:
            # What was sent may still arrive: the lock is kept, so that the process that takes it over expects that.
            raise
        except BaseException as error:
            try:
                self._release(locked)
            except LockLostError as lost:
                if isinstance(error, ServerError):
                    raise lost from error  # it failed because its tables were taken over
            except ChS3Error as failure:
                log.warning(
                    "cannot release the lock of %s; the next load will take it over: %s", self.ledger.target, failure
                )
            raise
        self._release(locked)

    def tidy_up(self) -> None:
        """Remove what earlier processes could not remove.

        :raises LockLostError: as :meth:`hold`.
        """
        with self.hold():
            pass  # each new owner does that first

    def _release(self, locked: LockedTarget) -> None:
        try:
            self.lock.release(locked.epoch)
        except LockLostError:
            locked.drop_created()
            raise
