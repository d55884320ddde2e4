"""Count the statements that loads send in this process, and the seconds that these take."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.hooks.driver import DriverHook


class StatementCount:
    """What the hooks of this process have sent since :meth:`reset`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()
        run = DriverHook._run

        def counted(hook: DriverHook, statement: Statement, *args: Any, **options: Any) -> Any:
            began = time.monotonic()
            try:
                return run(hook, statement, *args, **options)
            finally:
                with self._lock:
                    self.seconds[statement.name].append(time.monotonic() - began)

        DriverHook._run = counted  # type: ignore[method-assign, assignment]

    def reset(self) -> None:
        """Forget what was counted so far."""
        self.seconds: dict[str, list[float]] = defaultdict(list)

    @property
    def count(self) -> int:
        """Statements sent, each to one node."""
        return sum(len(seconds) for seconds in self.seconds.values())

    def seconds_of(self, names: frozenset[str]) -> float:
        """Seconds that the statements with these names took, one after the other."""
        return sum(sum(seconds) for name, seconds in self.seconds.items() if name in names)
