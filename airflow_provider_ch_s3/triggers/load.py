"""The trigger that waits for the end of a load's query."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import logging
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ch_s3.codec import decode
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.kill import kill_load
from airflow_provider_ch_s3.pace import Pace
from airflow_provider_ch_s3.query.progress import ProgressMeter
from airflow_provider_ch_s3.query.running import read_running
from airflow_provider_ch_s3.request import LoadIdentity
from airflow_provider_ch_s3.triggers.cancelled import HAS_ON_KILL, finish, is_ended_by_user
from airflow_provider_ch_s3.triggers.polling import connect, in_thread, join_poller, until

log = logging.getLogger(__name__)

# One look is not taken at one instant on all nodes: a part of the query may move on between two of them.
LOOKS_WITHOUT_QUERY = 2
CONFIRM_SECONDS = 1.0


class LoadTrigger(BaseTrigger):  # type: ignore[misc]
    """Wait until no node runs a query any more.

    It asks only, so it may start anew at any time and anywhere. How the query ended, and what is to be done then,
    the task finds out. The event is ``{"status": "over" | "timeout", "query_id": …}``.

    :param cluster: name in ``system.clusters``; None for one node alone.
    :param query_id: seen by the servers before; a query that none of them runs is over.
    :param identity: the load, by ``dump_identity``; a user who ends the task ends this load.
    :param poll_interval: seconds between two looks.
    :param deadline: Unix time; None to wait for ever.
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

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Get what it takes to make this trigger again: ids and times only."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "clickhouse_conn_id": self.clickhouse_conn_id,
                "cluster": self.cluster,
                "query_id": self.query_id,
                "identity": self.identity,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then say how that ended."""
        try:
            status = await self._wait()
        except asyncio.CancelledError:
            if not HAS_ON_KILL:
                await finish(self._kill_if_ended_by_user())
            raise
        yield TriggerEvent({"status": status, "query_id": self.query_id})

    async def on_kill(self) -> None:
        """End the load on all nodes, and see that nothing is left running; called when a user ends the task."""
        await in_thread(partial(self._kill, await connect(self.clickhouse_conn_id)))

    async def _kill_if_ended_by_user(self) -> None:
        if await is_ended_by_user(parse_identity(self.identity)):
            await self.on_kill()

    async def _wait(self) -> str:
        meter, pace = ProgressMeter(), Pace()
        try:
            async with (
                until(self.deadline),
                join_poller(self.clickhouse_conn_id, self.cluster, read_running) as poller,
            ):
                looks_without = 0
                while looks_without < LOOKS_WITHOUT_QUERY:
                    confirm = min(CONFIRM_SECONDS, self.poll_interval)
                    parts = await poller.look(self.query_id, confirm if looks_without else self.poll_interval)
                    looks_without = 0 if parts else looks_without + 1
                    if parts:
                        progress = meter.measure(parts)
                        if pace.is_due():
                            log.info("%s: %s", self.query_id, progress)
        except TimeoutError:
            log.info("%s: the time that execution_timeout allows is over", self.query_id)
            return "timeout"
        log.info("no node runs %s any more; the task goes on from here", self.query_id)
        return "over"

    def _kill(self, hook: ClickHouseS3Hook) -> None:
        try:
            # a connection may leave the cluster to the Distributed table, and the task has found it there
            declaration = dataclasses.replace(hook.declaration, cluster=self.cluster)
            kill_load(hook, declaration, parse_identity(self.identity))
        finally:
            hook.close()


def dump_identity(identity: LoadIdentity) -> dict[str, Any]:
    """The identity in plain JSON values."""
    return {**dataclasses.asdict(identity), "since": identity.since.isoformat()}


def parse_identity(values: Mapping[str, Any]) -> LoadIdentity:
    """The identity that was dumped, by any release."""
    return decode(LoadIdentity, {**values, "since": datetime.datetime.fromisoformat(values["since"])})
