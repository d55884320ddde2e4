"""Which task instance loads, and in which life of the task."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

# Clocks of workers and servers may differ by that much.
CLOCK_MARGIN_SECONDS = 2 * 3600

LOAD_PREFIX = "ch-s3-"
"""How the ids of all loads begin."""


@dataclass(frozen=True, kw_only=True)
class Life:
    """A task in one run, from one clear to the next.

    :param since: when the run began (Unix time).
    """

    since: float = 0.0
    generation: int = 0
    first_try: int = 1

    def is_that_of(self, earlier: Life) -> bool:
        """Whether, by run and generation, the tries of another life belong to this life."""
        return (self.since, self.generation) == (earlier.since, earlier.generation)

    def may_follow_clear(self, earlier: Life) -> bool:
        """Whether the task was cleared since, or ``retries`` was lowered, which looks the same."""
        return not self.is_that_of(earlier) or earlier.first_try < self.first_try


@dataclass(frozen=True, kw_only=True)
class LoadIdentity:
    """The loading task instance, and its current life.

    :param map_index: -1 for a task that is not mapped.
    :param generation: the same for all retries, different after a clear.
    :param first_try: number of this generation's first try; clears do not restart the count.
    :param is_last_try: Airflow will not try again by itself.
    :param since: when the DAG run began (UTC), by Airflow's clock; tells apart runs of the same name.
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    table: str
    generation: int = 0
    try_number: int = 1
    first_try: int = 1
    is_last_try: bool = True
    since: datetime.datetime

    @classmethod
    def nobody(cls, table: str) -> LoadIdentity:
        """Return an identity for looking at a table, without loading."""
        since = datetime.datetime.fromtimestamp(0, datetime.UTC)
        return cls(dag_id="", task_id="", run_id="", table=table, since=since)

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped} of run {self.run_id}"

    @property
    def load_id(self) -> str:
        """Id shared by all tries and generations; a prefix of every query id of the load."""
        names = json.dumps([self.dag_id, self.task_id, self.run_id, self.map_index, self.table])
        return f"{LOAD_PREFIX}{hashlib.sha256(names.encode()).hexdigest()[:20]}"

    @property
    def generation_prefix(self) -> str:
        """Prefix of the query ids of this generation, and of no other generation."""
        return f"{self.load_id}-{self.generation}-"

    @property
    def age_seconds(self) -> int:
        """How long ago the run began, by the worker's clock."""
        return math.ceil(max(0.0, (datetime.datetime.now(datetime.UTC) - self.since).total_seconds()))

    def query_id(self, attempt: int) -> str:
        """Query id of the n-th INSERT of this generation; known before the INSERT is submitted."""
        return f"{self.generation_prefix}{attempt}"

    @property
    def is_first_try(self) -> bool:
        """Whether nothing was submitted earlier in this generation, unless ``retries`` was lowered since."""
        return self.try_number <= self.first_try

    @property
    def life(self) -> Life:
        """The run, and the task's life in the run.

        The generation alone is ambiguous: if ``retries`` was lowered, a generation may come back after a clear.
        """
        return Life(since=self.since.timestamp(), generation=self.generation, first_try=self.first_try)

    @property
    def rank(self) -> tuple[float, int]:
        """Of two processes of a load, the process with the higher rank continues.

        A clear does not restart the count of tries. Generations would not do: they fall if ``retries`` is lowered.
        """
        return self.since.timestamp(), self.try_number

    @property
    def names(self) -> dict[str, str | int]:
        """The task instance, in Airflow's terms."""
        names: dict[str, str | int] = {"dag": self.dag_id, "task": self.task_id, "run": self.run_id}
        return names | ({"map_index": self.map_index} if self.map_index >= 0 else {})

    def log_comment(self, **found: Any) -> str:
        """JSON for ``system.query_log``: the task instance, and what the listing found."""
        return json.dumps({**self.names, "try": self.try_number, **found})
