"""Poll for all triggers on one connection with few statements.

A triggerer runs thousands of triggers on one event loop. Triggers that wait for the same kind of thing on the same
connection share a ``Poller``. The poller queries for all its triggers at once, in a thread, because the hook blocks.
The polls are aligned to multiples of their interval on the loop's clock, and so fall due together.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async

from airflow_provider_ch_s3.common.timing import Pace
from airflow_provider_ch_s3.common.work import call_aside
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

log = get_log(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Result = TypeVar("Result")
Read = Callable[[ClickHouseS3Hook, Sequence[Item], str | None], Mapping[Item, Answer]]

# A trigger ends itself at the deadline; Airflow's own timeout is a fallback for a triggerer that does not run.
BACKSTOP_SECONDS = 60.0
# An interval of 0 would keep the servers busy with nothing but polls.
MIN_INTERVAL_SECONDS = 0.25


class _PollError(Exception):
    """The servers could not be queried this time."""


@dataclass(kw_only=True, eq=False)
class _Request(Generic[Item, Answer]):
    item: Item
    due: float
    answer: asyncio.Future[Answer]


class Poller(Generic[Item, Answer]):
    """Polls the items of all members together; ends with the last member.

    :param read: a blocking function that returns an answer for each of any number of items.
    """

    def __init__(self, clickhouse_conn_id: str, cluster: str | None, read: Read[Item, Answer]) -> None:
        self.members = 0
        self._conn_id = clickhouse_conn_id
        self._cluster = cluster
        self._read = read
        self._requests: list[_Request[Item, Answer]] = []
        self._changed = asyncio.Event()
        self._hook: ClickHouseS3Hook | None = None
        # In a separate context: the poller's log messages belong to no single task.
        self._task = asyncio.create_task(self._run(), context=contextvars.Context())

    async def poll(self, item: Item, interval_seconds: float) -> Answer:
        """Wait for the next tick, and return the tick's answer; if the poll fails, the answer of a later tick."""
        loop = asyncio.get_running_loop()
        pace = Pace()
        while True:
            due = next_tick(loop.time(), interval_seconds)
            request = _Request[Item, Answer](item=item, due=due, answer=loop.create_future())
            self._requests.append(request)
            self._changed.set()
            try:
                return await request.answer
            except _PollError as error:
                if pace.is_due(str(error)):
                    log.warning("cannot poll %s now, retrying: %s", item, error)

    def leave(self) -> None:
        """End the membership of one trigger."""
        self.members -= 1
        self._changed.set()

    async def _run(self) -> None:
        try:
            while self.members:
                if due := self._take_due():
                    await self._answer(due)
                else:
                    await self._rest()
        finally:
            await in_thread(self._close)

    def _take_due(self) -> list[_Request[Item, Answer]]:
        now = asyncio.get_running_loop().time()
        due = [request for request in self._requests if request.due <= now]
        self._requests = [request for request in self._requests if request.due > now]
        return [request for request in due if not request.answer.done()]

    async def _rest(self) -> None:
        """Sleep until the next request is due, or the requests or members change."""
        self._changed.clear()
        due = min((request.due for request in self._requests), default=None)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._changed.wait()

    async def _answer(self, requests: Sequence[_Request[Item, Answer]]) -> None:
        items = list(dict.fromkeys(request.item for request in requests))
        try:
            if self._hook is None:
                self._hook = await connect(self._conn_id)
            answers = await in_thread(partial(self._read_all, self._hook, items))
        except Exception as error:  # whatever it is, nothing is known about the items
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(_PollError(str(error) or type(error).__name__))
            return
        for request in requests:
            if not request.answer.done():
                request.answer.set_result(answers[request.item])

    def _read_all(self, hook: ClickHouseS3Hook, items: Sequence[Item]) -> Mapping[Item, Answer]:
        try:
            return self._read(hook, items, self._cluster)
        except BaseException:
            self._close()  # the next poll reads the connection again: it may have been wrong
            raise

    def _close(self) -> None:
        if self._hook is not None:
            self._hook.close()
            self._hook = None


_POLLERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Poller[Any, Any]]] = WeakKeyDictionary()


@asynccontextmanager
async def join_poller(
    clickhouse_conn_id: str, cluster: str | None, read: Read[Item, Answer]
) -> AsyncIterator[Poller[Item, Answer]]:
    """Join the poller with this function on this connection, for the length of a block."""
    pollers = _POLLERS.setdefault(asyncio.get_running_loop(), {})
    key = (clickhouse_conn_id, cluster, read)
    if key not in pollers:
        pollers[key] = Poller(clickhouse_conn_id, cluster, read)
    poller = pollers[key]
    poller.members += 1
    try:
        yield poller
    finally:
        poller.leave()
        if not poller.members:
            del pollers[key]


def next_tick(now: float, interval_seconds: float) -> float:
    """Return the next multiple of the interval."""
    interval_seconds = max(interval_seconds, MIN_INTERVAL_SECONDS)
    return (now // interval_seconds + 1) * interval_seconds


def until(deadline: float | None) -> asyncio.Timeout:
    """End a block with ``TimeoutError`` at a Unix time; None for no limit."""
    return asyncio.timeout(None if deadline is None else max(0.0, deadline - time.time()))


async def connect(clickhouse_conn_id: str) -> ClickHouseS3Hook:
    """Create a hook and read the connection.

    A triggerer requests connections from the supervisor. Until Airflow 3.1 the triggerer mixes up the responses if
    other threads than the triggerer's own send requests; so this runs on a thread of asgiref.
    """

    def read() -> ClickHouseS3Hook:
        hook = ClickHouseS3Hook(clickhouse_conn_id=clickhouse_conn_id)
        hook.read_connection()
        return hook

    return await sync_to_async(read, thread_sensitive=False)()


async def in_thread(function: Callable[[], Result]) -> Result:
    """Run a blocking function in a separate thread.

    Not in the loop's pool, as ``asyncio.to_thread`` does: a few servers without a response would fill the pool, and a
    triggerer waits for the pool before the triggerer ends.
    """
    return await asyncio.wrap_future(call_aside(partial(contextvars.copy_context().run, function)))
