"""Faults at the weak spots of the protocol: a MOVE, the table's columns, the names of the nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.faults import oracle
from tests.faults.airflow_parts import RETRIES
from tests.faults.faults import send_signal
from tests.faults.plans import Kind
from tests.faults.scene import WAIT_SECONDS, Scene, wait_for
from tests.sandbox.move_killer import MoveKiller
from tests.sandbox.processes import kill_node

MOVE_SECONDS = 30.0
OTHER_SECONDS = 50.0
ALTERS = (
    f"ADD COLUMN {oracle.ADDED_COLUMN} UInt8 DEFAULT {oracle.ADDED_DEFAULT}",
    "MODIFY COLUMN amount Nullable(Int64)",
)


def kill_in_move(scene: Scene) -> None:
    """The node dies when the first new part is in the target's folder, while the source still has it."""
    killer = MoveKiller(
        scene.sandbox,
        f"{scene.database}.events_local",
        partial(kill_node, scene.sandbox),
    )
    scene.go()
    wait_for(lambda: killer.has_killed or scene.has_ended(), MOVE_SECONDS)
    killer.stop()


def alter_table(scene: Scene) -> None:
    """One node of the cluster is altered first; the others follow after a varying time."""
    scene.wait_for_the_insert()
    alter = ALTERS[scene.plan.amount % len(ALTERS)]
    firsts = oracle.first_replicas(scene.sandbox)
    carries_ddl = scene.sandbox.database_engine == "Replicated"
    for node in range(1 if carries_ddl else scene.sandbox.nodes):
        # replicas pass an ALTER on to each other
        for table in ("events_local", "events") if node in firsts else ("events",):
            scene.sandbox.query(f"ALTER TABLE {scene.database}.{table} {alter}", node=node)
        if node == 0 and scene.plan.lasts_to_the_end:
            scene.go()
            time.sleep(scene.plan.seconds)
    scene.go()


def edit_run(scene: Scene) -> None:
    """The worker dies, and its DAG is edited before the retry: its arguments, or how many retries it has."""
    if scene.plan.kind is Kind.LOWERED_RETRIES:
        scene.edit(retries=scene.plan.amount % RETRIES)
    else:
        scene.edit_arguments(where=oracle.EDITED_WHERE)
    send_signal(scene.hit, "pid", signal.SIGKILL)


def people_at_work(scene: Scene) -> None:
    """The worker stops, people write to the table, and the worker dies: what they did has to be there at the end.

    People wait for statements that the worker has sent to other nodes: docs/exactly-once.md says that a REPLACE takes
    away what is written while it runs. The worker stands still, because other threads of it may not have sent theirs.
    """
    while not has_stopped(scene):
        send_signal(scene.hit, "pid", signal.SIGCONT)
    let_people_act(scene)
    send_signal(scene.hit, "pid", signal.SIGKILL)


def has_stopped(scene: Scene) -> bool:
    """Stop the worker between two statements; returns whether none has begun meanwhile."""
    wait_for(lambda: not scene.statements_underway())
    send_signal(scene.hit, "pid", signal.SIGSTOP)
    return not scene.statements_underway()


def let_people_act(scene: Scene) -> None:
    """People act on some node; what they replace by right is on the first shard."""
    number, sandbox = int(scene.plan.seconds * 10), scene.sandbox
    shards = 1 if scene.plan.mode == "replace_partitions" else sandbox.shards
    node = scene.plan.amount % (shards * sandbox.replicas)
    has_updates = oracle.has_updates(sandbox)
    people = oracle.act_of_people(scene.plan.mode, number, node // sandbox.replicas, has_updates=has_updates)
    table = f"{scene.database}.events_local"
    if people.taking:
        people = oracle.take_rows_away(sandbox, table, people, node)
    settings = {"enable_lightweight_update": 1} if has_updates else {}
    for statement in people.statements:
        sandbox.query(statement.format(table=table), node=node, settings=settings)
    scene.people = people if people.part_of is None else oracle.take_part_away(sandbox, table, people, node)


def newer_profile(scene: Scene) -> None:
    """The worker dies, and from then on the user's profile has a setting that makes other statements of each."""
    scene.edit(has_newer_profile=True)
    send_signal(scene.hit, "pid", signal.SIGKILL)


def stop_queues(scene: Scene) -> None:
    """One replica stands still until every try has failed; when it has caught up, people write to the table."""
    table, node = f"{scene.database}.events_local", scene.plan.amount % scene.sandbox.nodes
    scene.sandbox.query(f"SYSTEM STOP REPLICATION QUEUES {table}", node=node)
    scene.go()
    wait_for(scene.has_ended)
    scene.sandbox.query(f"SYSTEM START REPLICATION QUEUES {table}", node=node)
    for one in range(scene.sandbox.nodes):
        scene.sandbox.query(f"SYSTEM SYNC REPLICA {table}", node=one)
    let_people_act(scene)


def new_view(scene: Scene) -> None:
    """Somebody creates a materialized view of the target."""
    scene.wait_for_the_insert()
    oracle.make_view(scene.sandbox, scene.database)
    scene.go()


def other_names(scene: Scene) -> None:
    """Another load of the same files, through a connection that names the nodes differently.

    Both wait at the point, and continue together.
    """
    spec = json.loads(scene.run_file.read_text())
    spec["arguments"].update(clickhouse_conn_id=f"faults_ch_other_{scene.slot.number}", deferrable=False)
    other = scene.run_file.with_name(f"{scene.run_file.stem}_other.json")
    other.write_text(json.dumps(spec))
    identity = {**scene.runner.identity(scene.run_id), "run_id": other.stem, "try": 1, "max_tries": RETRIES}
    scene.copy = start_other_load(scene, other, json.dumps(identity))
    copy = scene.copy
    wait_for(lambda: other.with_suffix(".hit").exists() or copy.poll() is not None, OTHER_SECONDS)
    other.with_suffix(".go").touch()
    scene.go()
    with suppress(subprocess.TimeoutExpired):
        copy.wait(WAIT_SECONDS)


def start_other_load(scene: Scene, run_file: Path, identity: str) -> subprocess.Popen[bytes]:
    with scene.run_file.with_suffix(".copy").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.faults.other_load", str(run_file), identity],
            env={**os.environ, **scene.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
