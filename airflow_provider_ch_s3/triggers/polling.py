"""Look at everything that waits on one connection with few statements.

A triggerer holds thousands of triggers on one event loop. Those that wait on the same connection for the same kind
of thing share a ``Poller``: it asks for all of them at once, in a thread, because the hook blocks. They wait on a
common beat, the multiples of their interval on the loop's clock, and so come due together.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async

from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.pace import Pace
from airflow_provider_ch_s3.protocols import ClickHouseClient

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Result = TypeVar("Result")
Ask = Callable[[ClickHouseClient, Sequence[Item], str | None], Mapping[Item, Answer]]

# A trigger ends itself at its deadline; Airflow's own timeout is there for a triggerer that does not.
BACKSTOP_SECONDS = 60.0
# An interval of 0 would keep the servers busy with nothing else.
MIN_INTERVAL_SECONDS = 0.25


class _LookError(Exception):
    """Nobody could be asked now."""


@dataclass(kw_only=True, eq=False)
class _Look(Generic[Item, Answer]):
    item: Item
    due: float
    answer: asyncio.Future[Answer]


class Poller(Generic[Item, Answer]):
    """Asks for all its members' items together; ends with its last member.

    :param ask: one blocking round for any number of items; answers for each of them.
    """

    def __init__(self, clickhouse_conn_id: str, cluster: str | None, ask: Ask[Item, Answer]) -> None:
        self.members = 0
        self._conn_id = clickhouse_conn_id
        self._cluster = cluster
        self._ask = ask
        self._looks: list[_Look[Item, Answer]] = []
        self._news = asyncio.Event()
        self._hook: ClickHouseS3Hook | None = None
        # In a context of its own: what it logs belongs to no single task.
        self._task = asyncio.create_task(self._run(), context=contextvars.Context())

    async def look(self, item: Item, interval_seconds: float) -> Answer:
        """Wait for the next beat, and for the answer; if nobody can be asked, for that of a later beat."""
        loop = asyncio.get_running_loop()
        pace = Pace()
        while True:
            due = next_beat(loop.time(), interval_seconds)
            look = _Look[Item, Answer](item=item, due=due, answer=loop.create_future())
            self._looks.append(look)
            self._news.set()
            try:
                return await look.answer
            except _LookError as error:
                if pace.is_due(str(error)):
                    log.warning("cannot look at %s now, asking again: %s", item, error)

    def leave(self) -> None:
        """End the membership of one trigger."""
        self.members -= 1
        self._news.set()

    async def _run(self) -> None:
        try:
            while self.members:
                if due := self._take_due():
                    await self._ask_for(due)
                else:
                    await self._rest()
        finally:
            await in_thread(self._close)

    def _take_due(self) -> list[_Look[Item, Answer]]:
        now = asyncio.get_running_loop().time()
        due = [look for look in self._looks if look.due <= now]
        self._looks = [look for look in self._looks if look.due > now]
        return [look for look in due if not look.answer.done()]

    async def _rest(self) -> None:
        """Until the next look is due, or something is new."""
        self._news.clear()
        due = min((look.due for look in self._looks), default=None)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._news.wait()

    async def _ask_for(self, looks: Sequence[_Look[Item, Answer]]) -> None:
        items = list(dict.fromkeys(look.item for look in looks))
        try:
            if self._hook is None:
                self._hook = await connect(self._conn_id)
            answers = await in_thread(partial(self._ask_all, self._hook, items))
        except Exception as error:  # whatever it is, it tells nothing of the items
            for look in looks:
                if not look.answer.done():
                    look.answer.set_exception(_LookError(str(error) or type(error).__name__))
            return
        for look in looks:
            if not look.answer.done():
                look.answer.set_result(answers[look.item])

    def _ask_all(self, hook: ClickHouseS3Hook, items: Sequence[Item]) -> Mapping[Item, Answer]:
        try:
            return self._ask(hook, items, self._cluster)
        except BaseException:
            self._close()  # the next round reads the connection anew: it may be what was wrong
            raise

    def _close(self) -> None:
        if self._hook is not None:
            self._hook.close()
            self._hook = None


_POLLERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Poller[Any, Any]]] = WeakKeyDictionary()


@asynccontextmanager
async def join_poller(
    clickhouse_conn_id: str, cluster: str | None, ask: Ask[Item, Answer]
) -> AsyncIterator[Poller[Item, Answer]]:
    """Be a member of the one poller that asks this on this connection."""
    pollers = _POLLERS.setdefault(asyncio.get_running_loop(), {})
    key = (clickhouse_conn_id, cluster, ask)
    if key not in pollers:
        pollers[key] = Poller(clickhouse_conn_id, cluster, ask)
    poller = pollers[key]
    poller.members += 1
    try:
        yield poller
    finally:
        poller.leave()
        if not poller.members:
            del pollers[key]


def next_beat(now: float, interval_seconds: float) -> float:
    """The next multiple of the interval."""
    interval_seconds = max(interval_seconds, MIN_INTERVAL_SECONDS)
    return (now // interval_seconds + 1) * interval_seconds


def until(deadline: float | None) -> asyncio.Timeout:
    """A block that ends with ``TimeoutError`` at a Unix time; never without one."""
    return asyncio.timeout(None if deadline is None else max(0.0, deadline - time.time()))


async def connect(clickhouse_conn_id: str) -> ClickHouseS3Hook:
    """A hook that knows its connection.

    A triggerer asks its supervisor for it, and until Airflow 3.1 mixes up the answers of threads that it does not
    know; so this one is asgiref's.
    """

    def read() -> ClickHouseS3Hook:
        hook = ClickHouseS3Hook(clickhouse_conn_id=clickhouse_conn_id)
        hook.read_connection()
        return hook

    return await sync_to_async(read, thread_sensitive=False)()


async def in_thread(function: Callable[[], Result]) -> Result:
    """Run a blocking function in a thread of its own.

    Not in the loop's pool, as ``asyncio.to_thread`` does: a few servers that do not answer would fill it, and a
    triggerer waits for the pool before it ends.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:  # it is raised again where it is awaited
            error = raised
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    return await future
