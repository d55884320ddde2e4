"""What a trigger does when it is cancelled.

Airflow before 3.3 does not call a trigger's ``on_kill``: there, the trigger finds out whether a user ended the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress

from airflow.triggers.base import BaseTrigger
from asgiref.sync import sync_to_async

from airflow_provider_ch_s3.identity import LoadIdentity

log = logging.getLogger(__name__)

_ACTIVE_STATES = frozenset({"deferred", "scheduled", "queued", "running"})
HAS_ON_KILL = hasattr(BaseTrigger, "on_kill")


async def is_ended_by_user(identity: LoadIdentity) -> bool:
    """Whether the load's task has ended, or is to be retried.

    If only the triggerer has ended, the task is still deferred; if another triggerer has seen the end of the query,
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
    except Exception as error:  # whatever it is: better to leave the query running than to kill it by mistake
        log.warning("cannot find out why the trigger of %s was cancelled: %s", identity.load_id, error)
        return False


async def finish(work: Awaitable[None]) -> None:
    """Run work to its end, although Airflow cancels a trigger again every second until it has ended."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
