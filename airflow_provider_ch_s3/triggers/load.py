"""The trigger that waits for the end of a load's query."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.kill import kill_load
from airflow_provider_ch_s3.monitoring.progress import ProgressMeter, ProgressPace, read_running
from airflow_provider_ch_s3.triggers.describe import Described
from airflow_provider_ch_s3.triggers.polling import connect, in_thread, join_poller, until

log = get_log(__name__)

# A poll does not see all nodes at the same instant, and work on the query may move from node to node in between.
POLLS_WITHOUT_QUERY = 2
CONFIRM_SECONDS = 1.0

# Airflow before 3.3 calls no on_kill: there, a cancelled trigger finds out whether a user ended the task.
HAS_ON_KILL = hasattr(BaseTrigger, "on_kill")
_ACTIVE_STATES = frozenset({"deferred", "scheduled", "queued", "running"})


class LoadTrigger(Described, BaseTrigger):  # type: ignore[misc]
    """Wait until no node is running a query any more.

    The trigger only reads, so it may be restarted at any time and anywhere. The task finds out how the query ended,
    and decides what to do. The event is ``{"status": "over" | "timeout", "query_id": …, "deadline": …}``.

    :param cluster: name in ``system.clusters``; None for a single node.
    :param query_id: a query that has been seen running; if no node is running the query, it has ended.
    :param identity: the load, from ``dump_identity``; if a user ends the task, this load is killed.
    :param poll_interval: seconds between two polls.
    :param deadline: Unix time; None to wait without a limit.
    """

    def __init__(
        self,
        *,
        clickhouse_conn_id: str,
        cluster: str | None,
        query_id: str,
        identity: Mapping[str, Any],
        poll_interval: float,
        deadline: float | None = None,
    ) -> None:
        super().__init__()
        self.clickhouse_conn_id = clickhouse_conn_id
        self.cluster = cluster
        self.query_id = query_id
        self.identity = dict(identity)
        self.poll_interval = poll_interval
        self.deadline = deadline
        self._killing: asyncio.Task[None] | None = None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then yield an event with the outcome."""
        try:
            status = await self._wait()
        except asyncio.CancelledError:
            if not HAS_ON_KILL:
                await finish(self._kill_if_ended_by_user())
            raise
        yield TriggerEvent({"status": status, "query_id": self.query_id, "deadline": self.deadline})

    async def on_kill(self) -> None:
        """Kill the load on all nodes, and check that nothing is still running; called when a user ends the task."""
        self._killing = asyncio.create_task(self._connect_and_kill())
        await asyncio.shield(self._killing)

    async def cleanup(self) -> None:
        """Wait for the kill: Airflow cancels ``on_kill``, too, a second later, but then calls this."""
        if self._killing is not None:
            await finish(self._killing)

    async def _kill_if_ended_by_user(self) -> None:
        if await _is_ended_by_user(parse_identity(self.identity)):
            await self.on_kill()

    async def _wait(self) -> str:
        meter, pace = ProgressMeter(), ProgressPace()
        try:
            async with (
                until(self.deadline),
                join_poller(self.clickhouse_conn_id, self.cluster, read_running) as poller,
            ):
                polls_without = 0
                while polls_without < POLLS_WITHOUT_QUERY:
                    confirm = min(CONFIRM_SECONDS, self.poll_interval)
                    parts = await poller.poll(self.query_id, confirm if polls_without else self.poll_interval)
                    polls_without = 0 if parts else polls_without + 1
                    if parts:
                        progress = meter.measure(parts)
                        if pace.is_due(progress):
                            log.info("%s: %s", self.query_id, progress.line)
        except TimeoutError:
            log.info("%s: execution_timeout has expired", self.query_id)
            return "timeout"
        log.info("no node is running %s any more; the task continues from here", self.query_id)
        return "over"

    async def _connect_and_kill(self) -> None:
        try:
            await in_thread(partial(self._kill, await connect(self.clickhouse_conn_id)))
        except Exception as error:  # whatever fails, nobody else is waiting for the kill
            log.warning("cannot kill %s, which may still be running: %s", self.query_id, error)

    def _kill(self, hook: ClickHouseS3Hook) -> None:
        with closing(hook):
            # the connection may name no cluster, if the task took it from the Distributed table
            declaration = dataclasses.replace(hook.declaration, cluster=self.cluster)
            kill_load(hook, declaration, parse_identity(self.identity))


async def _is_ended_by_user(identity: LoadIdentity) -> bool:
    """Whether the load's task has ended, or is to be retried.

    If only the triggerer has ended, the task is still deferred. If another triggerer has seen the end of the query,
    the task is continuing by now.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    def read_states() -> Mapping[str, object]:
        states = RuntimeTaskInstance.get_task_states(
            dag_id=identity.dag_id,
            task_ids=[identity.task_id],
            run_ids=[identity.run_id],
            map_index=identity.map_index,
        )
        return dict(states.get(identity.run_id, {}))  # keys differ for mapped tasks

    try:
        states = await sync_to_async(read_states, thread_sensitive=False)()
        return not _ACTIVE_STATES.intersection(map(str, states.values()))
    except Exception as error:  # whatever fails: better to leave the query running than to kill it by mistake
        log.warning("cannot find out why the trigger of %s was cancelled: %s", identity.load_id, error)
        return False


async def finish(work: Awaitable[None]) -> None:
    """Run work to the end, although Airflow cancels a trigger again every second until the trigger has ended."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)


def dump_identity(identity: LoadIdentity) -> dict[str, Any]:
    """Convert an identity to plain JSON values."""
    return {**dataclasses.asdict(identity), "since": identity.since.isoformat()}


def parse_identity(values: Mapping[str, Any]) -> LoadIdentity:
    """Restore an identity dumped by any release."""
    return decode(LoadIdentity, {**values, "since": datetime.datetime.fromisoformat(values["since"])})
