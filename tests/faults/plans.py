"""Plans of runs: a load, and the one fault that hits it. Chosen by hand, or by a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tests.faults import oracle
from tests.faults.oracle import MODES
from tests.faults.sources import AZURE, S3, STORES

DURING_INSERT = "execute:during:insert_load#1"
DURING_EXPORT = "execute:during:insert_export#1"
STORE = "store_"
"""With which the names of statements begin that are requests to a store."""
CREATE_LOCK = "execute:before:create_lock#1"


class Kind(Enum):
    """The kind of fault."""

    NONE = "none"
    KILL_WORKER = "kill_worker"
    KILL_TWICE = "kill_twice"
    STOP_WORKER = "stop_worker"
    LATE_STATEMENT = "late_statement"
    SECOND_COPY = "second_copy"
    KILL_TRIGGERER = "kill_triggerer"
    KILL_NODE = "kill_node"
    KILL_CLUSTER = "kill_cluster"
    CUT_NETWORK = "cut_network"
    STALL_NETWORK = "stall_network"
    STORE_500 = "store_500"
    STORE_503 = "store_503"
    STORE_SLOW = "store_slow"
    STORE_RESET = "store_reset"
    STORE_TRUNCATED = "store_truncated"
    OBJECT_CHANGED = "object_changed"
    OBJECT_DELETED = "object_deleted"
    OBJECT_NEW = "object_new"
    LEDGER_AWAY = "ledger_away"
    OUT_OF_MEMORY = "out_of_memory"
    KILL_IN_MOVE = "kill_in_move"
    ALTER_TABLE = "alter_table"
    OTHER_NAMES = "other_names"
    SAME_RUN_AGAIN = "same_run_again"
    SLOW_REPLICA = "slow_replica"
    KILL_SHARD = "kill_shard"
    KILL_KEEPER = "kill_keeper"
    STAND_STILL = "stand_still"
    NODE_DOWN = "node_down"
    CUT_REPLICAS = "cut_replicas"
    LEAVE_CLUSTER = "leave_cluster"
    EDITED_ARGUMENTS = "edited_arguments"
    LOWERED_RETRIES = "lowered_retries"
    RENAMED_TABLE = "renamed_table"
    DROPPED_LEDGER = "dropped_ledger"
    HOSTILE_PROFILE = "hostile_profile"
    NEW_VIEW = "new_view"
    DENIED_DISPOSAL = "denied_disposal"
    PEOPLE = "people"
    ONLY_MARKERS = "only_markers"
    MERGED_FILE_CHANGED = "merged_file_changed"
    RENAMED_AND_CHANGED = "renamed_and_changed"
    MANY_CHANGED = "many_changed"
    NEWER_PROFILE = "newer_profile"
    STOPPED_QUEUES = "stopped_queues"

    @property
    def is_for_all(self) -> bool:
        """Whether it hits every running load."""
        for_all = (Kind.KILL_TRIGGERER, Kind.KILL_KEEPER, Kind.STAND_STILL, Kind.LEAVE_CLUSTER)
        return self in for_all or self.kills_nodes

    @property
    def needs_airflow(self) -> bool:
        """Whether it hits what only a real Airflow has: the supervisor of a task's process, the triggerer."""
        return self in (Kind.STOP_WORKER, Kind.KILL_TRIGGERER)

    @property
    def changes_objects(self) -> bool:
        again = (Kind.SAME_RUN_AGAIN, Kind.DROPPED_LEDGER)
        return self in (Kind.OBJECT_CHANGED, Kind.OBJECT_DELETED, Kind.OBJECT_NEW, *again)

    @property
    def kills_nodes(self) -> bool:
        return self in (Kind.KILL_NODE, Kind.KILL_SHARD, Kind.KILL_CLUSTER, Kind.KILL_IN_MOVE, Kind.NODE_DOWN)

    @property
    def has_point(self) -> bool:
        """Whether it hits the running load, at one of its points."""
        return self not in (Kind.NONE, Kind.OUT_OF_MEMORY, Kind.SLOW_REPLICA, Kind.DENIED_DISPOSAL, *_AFTERWARDS)

    @property
    def takes_servers_away(self) -> bool:
        """Whether for a while no load can reach ClickHouse, or its own records there."""
        network = (Kind.CUT_NETWORK, Kind.STALL_NETWORK)
        away = (*network, Kind.LEDGER_AWAY, Kind.KILL_KEEPER, Kind.STAND_STILL, Kind.LEAVE_CLUSTER)
        refused = (Kind.NEWER_PROFILE, Kind.STOPPED_QUEUES)
        return self.kills_nodes or self in (*away, *refused)

    @property
    def leaves_servers_alone(self) -> bool:
        """Whether the load can always reach ClickHouse, so that it has no excuse for leaving something behind."""
        other = (Kind.OUT_OF_MEMORY, Kind.RENAMED_TABLE, Kind.DENIED_DISPOSAL)
        return self.changes_objects or bool(self.trouble) or self in other

    @property
    def trouble(self) -> str:
        """How the object store's proxy responds."""
        return self.value.removeprefix("store_") if self.value.startswith("store_") else ""


_OF_CHANGED_FILES = (*(Kind.ONLY_MARKERS, Kind.MERGED_FILE_CHANGED, Kind.RENAMED_AND_CHANGED, Kind.MANY_CHANGED),)
_AFTERWARDS = (Kind.SAME_RUN_AGAIN, Kind.DROPPED_LEDGER, Kind.RENAMED_TABLE, *_OF_CHANGED_FILES)
"""Kinds that happen after a load that was not disturbed, and before the next one."""

WEIGHTS = {
    Kind.KILL_WORKER: 5,
    Kind.KILL_TWICE: 3,
    Kind.STOP_WORKER: 2,
    Kind.LATE_STATEMENT: 3,
    Kind.SECOND_COPY: 2,
    Kind.KILL_TRIGGERER: 2,
    Kind.KILL_NODE: 3,
    Kind.KILL_CLUSTER: 2,
    Kind.CUT_NETWORK: 2,
    Kind.STALL_NETWORK: 2,
    Kind.STORE_500: 1,
    Kind.STORE_503: 1,
    Kind.STORE_SLOW: 1,
    Kind.STORE_RESET: 1,
    Kind.STORE_TRUNCATED: 1,
    Kind.OBJECT_CHANGED: 2,
    Kind.OBJECT_DELETED: 1,
    Kind.OBJECT_NEW: 1,
    Kind.LEDGER_AWAY: 2,
    Kind.OUT_OF_MEMORY: 1,
    Kind.KILL_IN_MOVE: 3,
    Kind.ALTER_TABLE: 3,
    Kind.OTHER_NAMES: 3,
    Kind.SAME_RUN_AGAIN: 2,
    Kind.EDITED_ARGUMENTS: 3,
    Kind.LOWERED_RETRIES: 3,
    Kind.RENAMED_TABLE: 2,
    Kind.DROPPED_LEDGER: 2,
    Kind.HOSTILE_PROFILE: 2,
    Kind.NEW_VIEW: 2,
    Kind.DENIED_DISPOSAL: 2,
    Kind.PEOPLE: 8,
    Kind.ONLY_MARKERS: 2,
    Kind.MERGED_FILE_CHANGED: 2,
    Kind.RENAMED_AND_CHANGED: 2,
    Kind.MANY_CHANGED: 1,
    Kind.NEWER_PROFILE: 2,
}
REPLICATED_WEIGHTS = {
    Kind.SLOW_REPLICA: 6,
    Kind.STOPPED_QUEUES: 6,
    Kind.KILL_SHARD: 3,
    Kind.KILL_KEEPER: 3,
    Kind.STAND_STILL: 3,
    Kind.NODE_DOWN: 3,
    Kind.CUT_REPLICAS: 3,
    Kind.LEAVE_CLUSTER: 3,
    **WEIGHTS,
}
"""Weights for tables with replicas."""
CLOUD_WEIGHTS = {kind: weight for kind, weight in REPLICATED_WEIGHTS.items() if kind is not Kind.OTHER_NAMES}
"""Weights for connections with one address, and so one name, for all replicas."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run.

    :param store: where the files are, one of ``STORES``.
    :param point: where the fault hits, ``phase:when:statement#n``; see ``faulty_task``.
    :param seconds: how long the fault lasts, for faults that last.
    :param amount: how many requests it hits, which node or file, or how far the retry gets.
    :param lasts_to_the_end: whether it lasts until the load has ended.
    """

    name: str
    mode: str
    is_deferred: bool
    store: str = S3
    kind: Kind = Kind.NONE
    point: str = ""
    seconds: float = 1.0
    amount: int = 1
    lasts_to_the_end: bool = False

    @property
    def has_slow_insert(self) -> bool:
        return self.point in (DURING_INSERT, DURING_EXPORT)

    @property
    def changed_version(self) -> int:
        """The version of an object after its change: in half of the runs it has become empty."""
        return oracle.EMPTY if self.amount > oracle.FILES else 1

    @property
    def is_export(self) -> bool:
        return self.mode == oracle.EXPORT

    def __str__(self) -> str:
        how = "deferred" if self.is_deferred else "worker"
        end = " to the end" if self.lasts_to_the_end else ""
        what = f"{self.name} {self.mode}/{how} {self.store} {self.kind.value}"
        return f"{what} at {self.point} {self.seconds} s x{self.amount}{end}"


@dataclass(frozen=True, kw_only=True)
class Points:
    """The points that a load without faults passes.

    :param all: points before and after each statement.
    :param writes: points before and after each statement that changes something.
    """

    all: Sequence[str]
    writes: Sequence[str]


Way = tuple[str, bool]
"""A mode, and whether the task defers: what decides which points a load passes."""

_OF_LOADS = {
    *(Kind.OBJECT_CHANGED, Kind.OBJECT_DELETED, Kind.OBJECT_NEW, Kind.SAME_RUN_AGAIN, Kind.LEDGER_AWAY),
    *(Kind.KILL_IN_MOVE, Kind.ALTER_TABLE, Kind.OTHER_NAMES, Kind.SLOW_REPLICA),
    *(Kind.EDITED_ARGUMENTS, Kind.RENAMED_TABLE, Kind.DROPPED_LEDGER, Kind.NEW_VIEW, Kind.DENIED_DISPOSAL),
    *(Kind.PEOPLE, Kind.STOPPED_QUEUES, Kind.NEWER_PROFILE),
}
"""Faults that hit what an export does not have: files to load, a ledger, a lock, a commit, or all replicas."""


_OF_COMMANDS = {
    *(Kind.KILL_WORKER, Kind.KILL_TWICE, Kind.STOP_WORKER, Kind.LATE_STATEMENT, Kind.SECOND_COPY, Kind.KILL_NODE),
    *(Kind.KILL_CLUSTER, Kind.CUT_NETWORK, Kind.STALL_NETWORK, Kind.LOWERED_RETRIES, Kind.HOSTILE_PROFILE),
    *(Kind.KILL_SHARD, Kind.KILL_KEEPER, Kind.STAND_STILL, Kind.NODE_DOWN, Kind.CUT_REPLICAS, Kind.LEAVE_CLUSTER),
    *(Kind.PEOPLE, Kind.NEWER_PROFILE),
}
"""Faults that hit a command, which reads no files, and has no INSERT."""
_HELD_BEFORE = {Kind.SAME_RUN_AGAIN, Kind.RENAMED_TABLE, Kind.EDITED_ARGUMENTS}
_UNSUITED = {
    oracle.EXPORT: _OF_LOADS,
    # it loads files that are gone
    oracle.DELETE: {Kind.SAME_RUN_AGAIN},
    # it never succeeds
    oracle.FAILED_CHECK: {*_AFTERWARDS, Kind.EDITED_ARGUMENTS, Kind.NEW_VIEW},
    # replicas are slow by a setting of the table; the table is made before the load
    oracle.NEW_TABLE: {Kind.SLOW_REPLICA, Kind.DROPPED_LEDGER, Kind.PEOPLE, Kind.STOPPED_QUEUES},
    # whatever people write is replaced, or stops it
    "replace_table": {Kind.PEOPLE, Kind.STOPPED_QUEUES},
    # people do not fill its new column
    oracle.NEW_COLUMNS: {Kind.PEOPLE, Kind.STOPPED_QUEUES},
    # it is refused when a chunk is committed
    oracle.CHUNKS: {Kind.EDITED_ARGUMENTS},
    # lines cannot be filtered; the table of the rejected ones has the old name
    oracle.REJECT: {Kind.EDITED_ARGUMENTS, Kind.RENAMED_TABLE},
    # what they leave depends on which files the load before has loaded
    oracle.REPLACED: _HELD_BEFORE,
    oracle.MISSING: _HELD_BEFORE | {Kind.MANY_CHANGED},
}


def random_plan(
    seed: int,
    number: int,
    points: Mapping[Way, Points],
    weights: Mapping[Kind, int] = WEIGHTS,
    modes: Sequence[str] = MODES,
    stores: Sequence[str] = STORES,
) -> Plan:
    """Choose a plan at random: always the same for a seed and number, as long as the load sends the same statements.

    The first plans of a series have each kind once, and the one after them is a load whose check fails.

    :param points: of the way that :func:`random_way` chooses, at least.
    :param stores: that the servers can read with the keys of a connection.
    """
    chance = random.Random(f"{seed}/{number}")
    kind, (mode, is_deferred) = _random_way(chance, number, weights, modes)
    return Plan(
        name=f"random_{number}",
        mode=mode,
        is_deferred=is_deferred,
        kind=kind,
        point=_random_point(chance, kind, points[mode, is_deferred]),
        seconds=round(chance.uniform(0.2, 3.0), 1),
        amount=chance.randint(1, 12),
        lasts_to_the_end=chance.random() < 0.3,
        store=chance.choice([store for store in stores_of(mode) if store in stores]),
    )


def random_way(
    seed: int, number: int, weights: Mapping[Kind, int] = WEIGHTS, modes: Sequence[str] = MODES
) -> tuple[Kind, Way]:
    """Choose the kind of fault and the way of the load, as :func:`random_plan` does."""
    return _random_way(random.Random(f"{seed}/{number}"), number, weights, modes)


def _random_way(
    chance: random.Random, number: int, weights: Mapping[Kind, int], modes: Sequence[str]
) -> tuple[Kind, Way]:
    kinds = list(weights)
    first = [*kinds, kinds[0]]
    kind = first[number] if number < len(first) else chance.choices(kinds, list(weights.values()))[0]
    suited = [mode for mode in modes if suits(kind, mode)]
    fails = number == len(kinds) and oracle.FAILED_CHECK in suited
    mode = oracle.FAILED_CHECK if fails else chance.choice(suited)
    return kind, (mode, kind is Kind.KILL_TRIGGERER or chance.random() < 0.5)


def suits(kind: Kind, mode: str) -> bool:
    """Whether a kind of fault can hit a mode, and the outcome be judged."""
    if mode == oracle.UNDO:
        return kind in _OF_COMMANDS
    if kind in _UNSUITED.get(mode, ()):
        return False
    if kind is Kind.DENIED_DISPOSAL:
        return mode == oracle.DELETE
    if kind in _OF_CHANGED_FILES:
        return mode == oracle.MISSING or (mode == oracle.REPLACED and kind is not Kind.ONLY_MARKERS)
    return kind not in (Kind.KILL_IN_MOVE, Kind.NEW_VIEW) or mode == "append"


def stores_of(mode: str) -> Sequence[str]:
    """List the stores that a mode can load from, or export to."""
    match mode:
        case oracle.EXPORT | oracle.UNDO:
            return (S3,)
        case oracle.DELETE | oracle.REPLACED | oracle.MISSING:
            return (S3, AZURE)
    return STORES


def _random_point(chance: random.Random, kind: Kind, points: Points) -> str:
    is_during = chance.random() < 0.4
    point = chance.choice([*points.all, *points.writes])
    is_during &= not any(":write_event_undone#" in point for point in points.writes)
    late = chance.choice([point for point in points.writes if ":before:" in point and f":{STORE}" not in point])
    during = DURING_EXPORT if any(":insert_export#" in point for point in points.writes) else DURING_INSERT
    match kind:
        case Kind.KILL_TRIGGERER:
            return during
        case Kind.LATE_STATEMENT:
            return late
        case Kind.STOP_WORKER | Kind.KILL_TWICE:
            return point
        case Kind.KILL_IN_MOVE:
            return next(point for point in points.writes if ":before:move_partitions#" in point)
        case Kind.ALTER_TABLE:
            return chance.choice([during, *_before_the_commit(points.writes)])
        case Kind.OTHER_NAMES:
            return chance.choice([CREATE_LOCK, late])
        case Kind.NEW_VIEW:
            return chance.choice([during, *_before_the_last_check(points.writes)])
        case Kind.PEOPLE | Kind.STOPPED_QUEUES | Kind.MANY_CHANGED:
            return chance.choice(_in_the_commit(points.writes))
        case Kind.EDITED_ARGUMENTS | Kind.LOWERED_RETRIES:
            return chance.choice(points.writes)
        case _:
            chosen = during if is_during else point
            return chosen if kind.has_point else ""


def _in_the_commit(writes: Sequence[str]) -> Sequence[str]:
    """Select the points from the beginning of the commit to its end, or all if there is none."""
    found = [place for place, point in enumerate(writes) if ":write_event_committing#" in point]
    ends = [place for place, point in enumerate(writes) if ":before:write_event_committed#" in point]
    return writes[found[0] : ends[0] + 1] if found and ends else writes


def _before_the_last_check(writes: Sequence[str]) -> Sequence[str]:
    """Select the points from the plan in the ledger to the preparation of the commit, inclusive."""
    planned = next(place for place, point in enumerate(writes) if ":after:write_event_planned#" in point)
    prepared = next((place for place, point in enumerate(writes) if ":before:hold_merges#" in point), planned)
    return writes[planned : prepared + 1]


def _before_the_commit(writes: Sequence[str]) -> Sequence[str]:
    """Select the points from the plan in the ledger to the first statement that changes the target, if any."""
    planned = next(place for place, point in enumerate(writes) if ":after:write_event_planned#" in point)
    changes = (place for place, point in enumerate(writes) if re.search(":before:(move|replace)_partitions#", point))
    first = next(changes, len(writes) - 1)
    return writes[planned : first + 1]
