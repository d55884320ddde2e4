"""How each kind of fault is caused, and by which process."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.faults import (
    change_object,
    cut_network,
    cut_replicas,
    kill_cluster,
    kill_keeper,
    kill_node,
    kill_shard,
    kill_triggerer,
    kill_worker,
    late_statement,
    leave_cluster,
    ledger_away,
    node_down,
    second_copy,
    stall_network,
    stand_still,
    stop_worker,
    trouble_store,
)
from tests.faults.plans import Kind
from tests.faults.protocol_faults import (
    alter_table,
    edit_run,
    kill_in_move,
    new_view,
    newer_profile,
    other_names,
    people_at_work,
    stop_queues,
)
from tests.faults.scene import Scene

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
    Kind.STORE_500: trouble_store,
    Kind.STORE_503: trouble_store,
    Kind.STORE_SLOW: trouble_store,
    Kind.STORE_RESET: trouble_store,
    Kind.STORE_TRUNCATED: trouble_store,
    Kind.OBJECT_CHANGED: change_object,
    Kind.OBJECT_DELETED: change_object,
    Kind.OBJECT_NEW: change_object,
    Kind.LEDGER_AWAY: ledger_away,
    Kind.KILL_IN_MOVE: kill_in_move,
    Kind.ALTER_TABLE: alter_table,
    Kind.OTHER_NAMES: other_names,
    Kind.KILL_SHARD: kill_shard,
    Kind.KILL_KEEPER: kill_keeper,
    Kind.STAND_STILL: stand_still,
    Kind.NODE_DOWN: node_down,
    Kind.CUT_REPLICAS: cut_replicas,
    Kind.LEAVE_CLUSTER: leave_cluster,
    Kind.EDITED_ARGUMENTS: edit_run,
    Kind.LOWERED_RETRIES: edit_run,
    Kind.HOSTILE_PROFILE: kill_worker,
    Kind.NEW_VIEW: new_view,
    Kind.PEOPLE: people_at_work,
    Kind.NEWER_PROFILE: newer_profile,
    Kind.STOPPED_QUEUES: stop_queues,
}
ACTIONS = {
    Kind.HOSTILE_PROFILE: "kill",
    Kind.KILL_WORKER: "kill",
    Kind.KILL_TWICE: "kill",
    Kind.STOP_WORKER: "stop",
    Kind.LATE_STATEMENT: "mark",
}
"""What the task's own process does at the point; with all other kinds it waits there for the harness."""
