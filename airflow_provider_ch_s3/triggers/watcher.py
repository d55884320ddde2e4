"""What the triggers of an asset's watcher have in common: arguments, and polls for what a table lacks."""

from __future__ import annotations

import dataclasses
import datetime
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_ch_s3.common.arguments import check_seconds
from airflow_provider_ch_s3.common.declared import SECONDS, TEXT
from airflow_provider_ch_s3.common.timing import Pace
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.files.addresses import NamedStore
from airflow_provider_ch_s3.table.target import TABLE
from airflow_provider_ch_s3.triggers.describe import Described

if TYPE_CHECKING:
    from airflow_provider_ch_s3.load.watch import PollResult, WatchedSource

log = get_log(__name__)

Poll = Callable[[Any], Awaitable["PollResult[Any] | Exception"]]
"""Looks for the news of a ``Watch``, when it is time."""


class WatcherTrigger(Described, BaseEventTrigger):  # type: ignore[misc]
    """Poll for what a table lacks; the base of the triggers for an ``AssetWatcher``."""

    def __init__(
        self,
        *,
        table: str,
        again_after: float | datetime.timedelta,
        poll_interval: float,
        clickhouse_conn_id: str,
    ) -> None:
        super().__init__()
        self.table: str = TABLE.parse("table", table)
        self.again_after: float = SECONDS.parse("again_after", again_after)
        self.poll_interval = poll_interval
        self.clickhouse_conn_id: str = TEXT.parse("clickhouse_conn_id", clickhouse_conn_id)
        check_seconds("poll_interval", poll_interval, is_positive=True)

    @abstractmethod
    def watch(self) -> WatchedSource:
        """Return what to poll for."""

    @abstractmethod
    def store(self) -> NamedStore:
        """Return the store to look in."""

    def polling(self, poll: Poll) -> AbstractContextManager[Poll]:
        """Return what looks for news, for the length of a block.

        :param poll: looks when a poll is due.
        """
        return nullcontext(poll)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll, and yield an event for each poll that finds something new; log and repeat a failed poll."""
        # imported here, because DAG files with a watcher import this module
        from airflow_provider_ch_s3.triggers.polling import join_poller
        from airflow_provider_ch_s3.triggers.watching import share_store

        watch, pace, store = self.watch(), Pace(), share_store(self.store())
        async with join_poller(self.clickhouse_conn_id, None, store.poll) as poller:
            with self.polling(partial(poller.poll, interval_seconds=self.poll_interval)) as poll:
                while True:
                    found = await poll(watch)
                    if isinstance(found, Exception):
                        if pace.is_due(str(found)):
                            log.warning("cannot look for news of %s now, retrying: %s", watch, found)
                        continue
                    watch = dataclasses.replace(watch, position=found.position)
                    if found.new:
                        log.info("%s: %s", watch, found.new)
                        yield TriggerEvent(found.new.describe(watch))
