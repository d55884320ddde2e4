"""How each kind of fault is done, from outside of the task's process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.errors import ServerError
from airflow_provider_ch_s3.sandbox.info import Sandbox
from tests.faults.airflow_parts import AirflowParts
from tests.faults.oracle import FILES, file_rows, write_parquet
from tests.faults.plans import Kind, Plan
from tests.faults.proxies import Hold, Proxy
from tests.faults.runners import OVER, Runner

BUCKET = "faults"
WAIT_SECONDS = 120.0
COPY_SECONDS = 20.0
POLL_SECONDS = 0.02


def wait_for(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> bool:
    """Wait for a condition; says whether it came."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


@dataclass(kw_only=True)
class Slot:
    """The proxies and connections of one run at a time."""

    number: int
    nodes: list[Proxy]
    store: Proxy

    def heal(self) -> None:
        for proxy in (*self.nodes, self.store):
            proxy.heal()


@dataclass(kw_only=True)
class Scene:
    """One run, as a fault sees it.

    :param airflow: None where the runner is none.
    :param prefix: of the run's objects.
    """

    plan: Plan
    run_file: Path
    database: str
    prefix: str
    sandbox: Sandbox
    runner: Runner
    environment: Mapping[str, str]
    airflow: AirflowParts | None
    slot: Slot
    run_id: str = ""
    holds: list[Hold] = field(default_factory=list)
    copy: subprocess.Popen[bytes] | None = None

    @property
    def hit(self) -> dict[str, Any] | None:
        """Who reached the point; None while nobody has."""
        lines = read_lines(self.run_file.with_suffix(".hit"))
        return lines[0] if lines else None

    def go(self) -> None:
        """Let the task go on."""
        self.run_file.with_suffix(".go").touch()

    def has_ended(self) -> bool:
        return self.runner.state(self.run_id)[0] in OVER

    def retry_statements(self) -> int:
        """How many statements later tries than the one that was hit have begun."""
        hit = self.hit or {"try": 1}
        trace = read_lines(self.run_file.with_suffix(".trace"))
        return sum(line["try"] > hit["try"] and line["when"] == "before" for line in trace)

    def wait_for_the_insert(self) -> None:
        """Until the server runs it, where the fault comes in its middle."""
        if self.plan.has_slow_insert:
            like = f"query_id LIKE 'ch-s3-%-insert' AND position(query, '{self.database}') > 0"
            wait_for(lambda: self.sandbox.query(f"SELECT 1 FROM system.processes WHERE {like}"), 5)

    def wait_until_the_retry(self) -> None:
        """Until a retry is in its midst, or at its end."""
        if self.plan.lasts_to_the_end:
            wait_for(self.has_ended)
        else:
            wait_for(lambda: self.has_ended() or self.retry_statements() > 2 * self.plan.amount)


def kill_worker(scene: Scene) -> None:
    if scene.plan.has_slow_insert:
        scene.wait_for_the_insert()
        send_signal(scene.hit, "pid", signal.SIGKILL)


def stop_worker(scene: Scene) -> None:
    """Airflow gives the task up and tries again; then the first try wakes up, and its supervisor after it."""
    scene.wait_until_the_retry()
    send_signal(scene.hit, "pid", signal.SIGCONT)
    time.sleep(scene.plan.seconds)
    send_signal(scene.hit, "parent", signal.SIGCONT)
    pid = (scene.hit or {}).get("pid", 0)
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 30)


def late_statement(scene: Scene) -> None:
    """The task dies with a statement on its way, which arrives when the retry is at work, or has ended."""
    if wait_for(lambda: any(hold.has_arrived.is_set() for hold in scene.holds), 10):
        send_signal(scene.hit, "pid", signal.SIGKILL)
        scene.wait_until_the_retry()
    for hold in scene.holds:
        hold.release()
    wait_for(lambda: all(hold.is_answered.is_set() for hold in scene.holds if hold.has_arrived.is_set()))


def second_copy(scene: Scene) -> None:
    """The same try of the same task, in another process."""
    identity = {**scene.runner.identity(scene.run_id), **(scene.hit or {})}
    arguments = [str(scene.run_file), json.dumps(identity)]
    with scene.run_file.with_suffix(".copy").open("wb") as log:
        scene.copy = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.copy", *arguments],
            env={**os.environ, **scene.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    if scene.plan.lasts_to_the_end:
        # the first one stands still, and the copy overtakes it
        with suppress(subprocess.TimeoutExpired):
            scene.copy.wait(COPY_SECONDS)
    scene.go()
    with suppress(subprocess.TimeoutExpired):
        scene.copy.wait(WAIT_SECONDS)


def kill_triggerer(scene: Scene) -> None:
    assert scene.airflow is not None
    wait_for(lambda: scene.has_ended() or scene.runner.state(scene.run_id)[0] == "deferred")
    time.sleep(scene.plan.seconds)
    scene.airflow.kill("triggerer")
    scene.airflow.start("triggerer")


def kill_node(scene: Scene) -> None:
    scene.wait_for_the_insert()
    nodes = len(scene.sandbox.http_ports)
    kill_node_process(scene.sandbox, scene.plan.amount % nodes)
    scene.go()


def kill_cluster(scene: Scene) -> None:
    scene.wait_for_the_insert()
    for node in range(len(scene.sandbox.http_ports)):
        kill_node_process(scene.sandbox, node)
    scene.go()


def cut_network(scene: Scene) -> None:
    _with_network(scene, Proxy.cut)


def stall_network(scene: Scene) -> None:
    _with_network(scene, Proxy.stall)


def _with_network(scene: Scene, disturb: Callable[[Proxy], None]) -> None:
    scene.wait_for_the_insert()
    for proxy in scene.slot.nodes:
        disturb(proxy)
    scene.go()
    time.sleep(scene.plan.seconds)
    scene.slot.heal()


def trouble_store(scene: Scene) -> None:
    scene.slot.store.trouble(scene.plan.kind.trouble, 10_000 if scene.plan.lasts_to_the_end else scene.plan.amount)
    scene.go()


def change_object(scene: Scene) -> None:
    scene.wait_for_the_insert()
    number = scene.plan.amount % FILES
    s3 = scene.sandbox.s3_client()
    match scene.plan.kind:
        case Kind.OBJECT_CHANGED:
            s3.put_object(Bucket=BUCKET, Key=key(scene.prefix, number), Body=write_parquet(file_rows(number, 1)))
        case Kind.OBJECT_DELETED:
            s3.delete_object(Bucket=BUCKET, Key=key(scene.prefix, number))
        case Kind.OBJECT_NEW:
            s3.put_object(Bucket=BUCKET, Key=key(scene.prefix, FILES), Body=write_parquet(file_rows(FILES)))
    scene.go()


def ledger_away(scene: Scene) -> None:
    scene.wait_for_the_insert()
    table = f"{scene.database}.ch_s3_ledger"
    with suppress(ServerError):  # not made yet
        scene.sandbox.query(f"DETACH TABLE {table}")
        scene.go()
        if scene.plan.lasts_to_the_end:
            wait_for(scene.has_ended)
        else:
            time.sleep(scene.plan.seconds)
        scene.sandbox.query(f"ATTACH TABLE {table}")
    scene.go()


def key(prefix: str, number: int) -> str:
    return f"{prefix}/part-{number:02}.parquet"


def kill_node_process(sandbox: Sandbox, node: int) -> None:
    assert sandbox.directory is not None
    with suppress(ProcessLookupError):
        os.kill(int((sandbox.directory / f"node{node + 1}" / "pid").read_text()), signal.SIGKILL)


def all_nodes_answer(sandbox: Sandbox) -> bool:
    try:
        return all(sandbox.query("SELECT 1", node=node) for node in range(len(sandbox.http_ports)))
    except (OSError, HTTPException, ServerError):
        return False


def send_signal(hit: dict[str, Any] | None, who: str, number: signal.Signals) -> None:
    if hit is not None:
        with suppress(ProcessLookupError):
            os.kill(hit[who], number)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON lines."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


PERFORM: dict[Kind, Callable[[Scene], None]] = {
    Kind.KILL_WORKER: kill_worker,
    Kind.KILL_TWICE: kill_worker,
    Kind.STOP_WORKER: stop_worker,
    Kind.LATE_STATEMENT: late_statement,
    Kind.SECOND_COPY: second_copy,
    Kind.KILL_TRIGGERER: kill_triggerer,
    Kind.KILL_NODE: kill_node,
    Kind.KILL_CLUSTER: kill_cluster,
    Kind.CUT_NETWORK: cut_network,
    Kind.STALL_NETWORK: stall_network,
    Kind.S3_500: trouble_store,
    Kind.S3_503: trouble_store,
    Kind.S3_SLOW: trouble_store,
    Kind.S3_RESET: trouble_store,
    Kind.S3_TRUNCATED: trouble_store,
    Kind.OBJECT_CHANGED: change_object,
    Kind.OBJECT_DELETED: change_object,
    Kind.OBJECT_NEW: change_object,
    Kind.LEDGER_AWAY: ledger_away,
}
ACTIONS = {Kind.KILL_WORKER: "kill", Kind.KILL_TWICE: "kill", Kind.STOP_WORKER: "stop", Kind.LATE_STATEMENT: "mark"}
"""What the task's own process does at the point; all others wait there for the harness."""
