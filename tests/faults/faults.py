"""Cause each kind of fault from outside the task's process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow_provider_ch_s3.errors import ServerError
from tests.faults import oracle
from tests.faults.oracle import FILES, write_file
from tests.faults.plans import Kind
from tests.faults.proxies import Proxy
from tests.faults.scene import WAIT_SECONDS, Scene, wait_for
from tests.sandbox import processes

COPY_SECONDS = 20.0
# session timeout of the sandbox's servers with ZooKeeper
SESSION_SECONDS = 3.0


def kill_worker(scene: Scene) -> None:
    if scene.plan.has_slow_insert:
        scene.wait_for_the_insert()
        send_signal(scene.hit, "pid", signal.SIGKILL)


def stop_worker(scene: Scene) -> None:
    """Airflow abandons the suspended task and retries it; then the first try resumes, and its supervisor after it."""
    scene.wait_until_the_retry()
    send_signal(scene.hit, "pid", signal.SIGCONT)
    time.sleep(scene.plan.seconds)
    send_signal(scene.hit, "parent", signal.SIGCONT)
    pid = (scene.hit or {}).get("pid", 0)
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 30)


def late_statement(scene: Scene) -> None:
    """The task dies with a statement in flight, which arrives while the retry is running, or after its end."""
    if wait_for(lambda: any(hold.has_arrived.is_set() for hold in scene.holds), 10):
        send_signal(scene.hit, "pid", signal.SIGKILL)
        scene.wait_until_the_retry()
    for hold in scene.holds:
        hold.release()
    wait_for(lambda: all(hold.is_answered.is_set() for hold in scene.holds if hold.has_arrived.is_set()))
    scene.has_outlasted_the_load = scene.has_ended()


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
        # the first process is waiting, and the copy overtakes it
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


def chosen_node(scene: Scene) -> int:
    """Return the number of the node that the plan selects."""
    return scene.plan.amount % scene.sandbox.nodes


def kill_node(scene: Scene) -> None:
    scene.wait_for_the_insert()
    processes.kill_node(scene.sandbox, chosen_node(scene))
    scene.go()


def kill_shard(scene: Scene) -> None:
    """Kill all replicas of one shard."""
    scene.wait_for_the_insert()
    firsts = oracle.first_replicas(scene.sandbox)
    first = firsts[scene.plan.amount % len(firsts)]
    for node in range(first, first + scene.sandbox.replicas):
        processes.kill_node(scene.sandbox, node)
    scene.go()


def kill_keeper(scene: Scene) -> None:
    scene.wait_for_the_insert()
    processes.kill_process(scene.sandbox, processes.ZOOKEEPER)
    scene.go()


def stand_still(scene: Scene) -> None:
    """A server is suspended for longer than its ZooKeeper session lasts, and then continues where it was."""
    scene.wait_for_the_insert()
    pid = processes.pid_of(scene.sandbox, processes.node_name(chosen_node(scene)))
    os.kill(pid, signal.SIGSTOP)
    scene.go()
    time.sleep(SESSION_SECONDS + scene.plan.seconds)
    os.kill(pid, signal.SIGCONT)


def node_down(scene: Scene) -> None:
    """A server dies and is not restarted for some time: DDL for all replicas waits for it."""
    scene.wait_for_the_insert()
    with processes.kept_down(scene.sandbox, chosen_node(scene)):
        scene.go()
        time.sleep(5 * scene.plan.seconds)


def leave_cluster(scene: Scene) -> None:
    """A server leaves the cluster and returns after some time, when other loads may be running."""
    scene.wait_for_the_insert()
    with processes.left_out(scene.sandbox, chosen_node(scene)):
        scene.go()
        time.sleep(5 * scene.plan.seconds)


def cut_replicas(scene: Scene) -> None:
    """Replicas fetch no parts of the run's tables from each other."""
    scene.wait_for_the_insert()
    switch_fetches(scene, "STOP")
    scene.go()
    time.sleep(2 * scene.plan.seconds)
    switch_fetches(scene, "START")


def switch_fetches(scene: Scene, verb: str) -> None:
    for node in range(scene.sandbox.nodes):
        for table in oracle.replicated_tables(scene.sandbox, scene.database, node):
            with suppress(ServerError):  # the load may drop its tables in the meantime
                scene.sandbox.query(f"SYSTEM {verb} FETCHES {scene.database}.{table}", node=node)


def kill_cluster(scene: Scene) -> None:
    scene.wait_for_the_insert()
    for node in range(scene.sandbox.nodes):
        processes.kill_node(scene.sandbox, node)
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
    requests = 10_000 if scene.plan.lasts_to_the_end else scene.plan.amount
    scene.slot.stores[scene.plan.store].trouble(scene.plan.kind.trouble, requests)
    scene.go()


def change_object(scene: Scene) -> None:
    scene.wait_for_the_insert()
    number = scene.plan.amount % FILES
    match scene.plan.kind:
        case Kind.OBJECT_CHANGED:
            replace_object(scene, number, scene.plan.changed_version)
        case Kind.OBJECT_DELETED:
            scene.objects.delete(scene.key(number))
        case Kind.OBJECT_NEW:
            scene.objects.put(scene.key(FILES), write_file(FILES, 0, scene.ending))
    scene.go()


def replace_object(scene: Scene, number: int, version: int = 1) -> None:
    """Replace one of the run's objects with another version."""
    scene.objects.put(scene.key(number), write_file(number, version, scene.ending))


def ledger_away(scene: Scene) -> None:
    scene.wait_for_the_insert()
    table = f"{scene.database}.ch_s3_ledger"
    with suppress(ServerError):  # not created yet
        scene.sandbox.query(f"DETACH TABLE {table}")
        scene.go()
        if scene.plan.lasts_to_the_end:
            wait_for(scene.has_ended)
        else:
            time.sleep(scene.plan.seconds)
        scene.sandbox.query(f"ATTACH TABLE {table}")
    scene.go()


def send_signal(hit: dict[str, Any] | None, who: str, number: signal.Signals) -> None:
    if hit is not None:
        with suppress(ProcessLookupError):
            os.kill(hit[who], number)
