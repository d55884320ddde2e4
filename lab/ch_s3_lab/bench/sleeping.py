"""A trigger of Airflow that does nothing: what any trigger costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent


class SleepingTrigger(BaseEventTrigger):  # type: ignore[misc]
    """Sleep for ever.

    :param number: makes the trigger different from others: Airflow runs equal triggers once.
    """

    def __init__(self, *, number: int) -> None:
        super().__init__()
        self.number = number

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the arguments to re-create this trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"number": self.number}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield nothing."""
        await asyncio.Event().wait()
        yield TriggerEvent(None)
