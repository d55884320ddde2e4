"""One run from the point of view of a fault: what the fault may wait for, and what it may act on."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.common.timing import REAL_TIME
from ch_s3_lab.sandbox.info import Sandbox
from tests.faults.airflow_parts import AirflowParts
from tests.faults.oracle import People
from tests.faults.plans import Plan
from tests.faults.proxies import Hold, Proxy
from tests.faults.runners import OVER, Runner
from tests.faults.sources import Objects

WAIT_SECONDS = 120.0
POLL_SECONDS = 0.02


def wait_for(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> bool:
    """Wait for a condition; returns whether it became true."""
    return bool(REAL_TIME.poll(condition, seconds=seconds, pause_seconds=POLL_SECONDS))


@dataclass(kw_only=True)
class Slot:
    """Proxies and connections, which one run uses at a time."""

    number: int
    nodes: list[Proxy]
    stores: Mapping[str, Proxy]

    def heal(self) -> None:
        for proxy in (*self.nodes, *self.stores.values()):
            proxy.heal()


@dataclass(kw_only=True)
class Scene:
    """One run, from the point of view of a fault.

    :param airflow: None if the runner is not a real Airflow.
    :param prefix: prefix of the run's objects; of an export, its folder.
    :param ending: of the names of the run's objects.
    :param objects: the store that they are in.
    :param people: what others than the load have done to the table.
    """

    plan: Plan
    run_file: Path
    database: str
    prefix: str
    ending: str
    objects: Objects
    sandbox: Sandbox
    runner: Runner
    environment: Mapping[str, str]
    airflow: AirflowParts | None
    slot: Slot
    run_id: str = ""
    holds: list[Hold] = field(default_factory=list)
    copy: subprocess.Popen[bytes] | None = None
    people: People = field(default_factory=People)
    has_outlasted_the_load: bool = False

    @property
    def hit(self) -> dict[str, Any] | None:
        """The process that reached the point; None until one does."""
        lines = read_lines(self.run_file.with_suffix(".hit"))
        return lines[0] if lines else None

    def go(self) -> None:
        """Let the task continue."""
        self.run_file.with_suffix(".go").touch()

    def edit(self, **changes: Any) -> None:
        """Change what the next process of the task reads of its run."""
        new = self.run_file.with_suffix(".new")
        new.write_text(json.dumps({**json.loads(self.run_file.read_text()), **changes}))
        os.replace(new, self.run_file)

    def edit_arguments(self, **changes: Any) -> None:
        """Change arguments of the operator."""
        self.edit(arguments={**json.loads(self.run_file.read_text())["arguments"], **changes})

    def key(self, number: int) -> str:
        """Return the key of one of the run's objects."""
        return key(self.prefix, number, self.ending)

    def has_ended(self) -> bool:
        return self.runner.state(self.run_id)[0] in OVER

    def retry_statements(self) -> int:
        """Count the statements that tries after the one that was hit have begun."""
        hit = self.hit or {"try": 1}
        trace = read_lines(self.run_file.with_suffix(".trace"))
        return sum(line["try"] > hit["try"] and line["when"] == "before" for line in trace)

    def statements_underway(self) -> set[str]:
        """Name the statements that the process at the point has sent, and whose answers are outstanding."""
        hit = self.hit or {"pid": 0}
        trace = [line for line in read_lines(self.run_file.with_suffix(".trace")) if line["pid"] == hit["pid"]]
        begun = {line["place"] for line in trace if line["when"] == "before"}
        ended = {line["place"] for line in trace if line["when"] != "before"}
        return begun - ended - {self.plan.point.rpartition(":")[2]}

    def wait_for_the_insert(self) -> None:
        """Wait until the server runs the INSERT, if the fault hits in the middle of it."""
        if self.plan.has_slow_insert:
            ours = f"query_id LIKE 'ch-s3-%' AND query_kind = 'Insert' AND position(query, '{self.database}') > 0"
            wait_for(lambda: self.sandbox.query(f"SELECT 1 FROM system.processes WHERE {ours}"), 5)

    def wait_until_the_retry(self) -> None:
        """Wait until a retry has got as far as planned, or has ended."""
        if self.plan.lasts_to_the_end:
            wait_for(self.has_ended)
        else:
            wait_for(lambda: self.has_ended() or self.retry_statements() > 2 * self.plan.amount)


def key(prefix: str, number: int, ending: str) -> str:
    return f"{prefix}/part-{number:02}.{ending}"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the complete lines of a file of JSON lines."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]
