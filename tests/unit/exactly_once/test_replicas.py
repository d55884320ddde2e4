"""How a load waits for replicas, and which of them it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import NodeSpec
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.errors import LoadError, TargetError
from airflow_provider_ch_s3.exactly_once.replicas import Replicas
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

TABLE = TableName(database="d", table="t")
SHARDS = {"a1": 1, "a2": 1, "b1": 2, "b2": 2}
NODES = [NodeSpec(host=host, shard=shard, vcpus=1, memory_bytes=1) for host, shard in SHARDS.items()]


@dataclass
class Shard:
    """What the servers report at one poll; by default both replicas of both shards have read three changes."""

    taken: dict[str, int] = field(default_factory=dict)
    log_ends: dict[str, int] = field(default_factory=dict)
    queue: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    read_only: Sequence[str] = ()
    failure: str = ""
    merges: dict[str, list[str]] = field(default_factory=dict)
    left_bytes: int = 3 * 1024**3


@dataclass
class Client:
    """Reports one state per poll, and then repeats the last one."""

    polls: list[Shard]
    reachable: frozenset[str] = frozenset(SHARDS)
    polled: int = 0
    paths: dict[str, str] = field(default_factory=dict)

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        path = next((path for table, path in self.paths.items() if f"'{table}'" in statement.text), None)
        self.polled += statement.name == "read_replicas"
        state = self.polls[min(self.polled, len(self.polls)) - 1]
        answers: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "read_zero_copy": list,
            "read_replicas": lambda: [
                {
                    "node": host,
                    "path": path or f"/{shard}",
                    "replicas": 2,
                    "readonly": host in state.read_only,
                    "log_end": state.log_ends.get(host, 3),
                    "log_taken": state.taken.get(host, 3),
                    "failure": state.failure,
                }
                for host, shard in SHARDS.items()
            ],
            "read_replication_queue": lambda: [
                {"node": host, "entry": entry, "failure": state.failure}
                for kinds in ((state.queue,) if "MERGE_PARTS" in statement.text else (state.queue, state.merges))
                for host, entries in kinds.items()
                for entry in entries
            ],
            "read_partitions": lambda: [
                {"node": host, "partition_id": "p", "rows": rows, "names": state.names.get(host, 0)}
                for host in SHARDS
                if (rows := state.rows.get(host, 10))
            ],
            "read_fetches": lambda: [{"node": host, "left_bytes": state.left_bytes} for host in state.queue],
        }
        return answers[statement.name]()


PATIENT = Timing(sleep=lambda _: None)
HASTY = replace(PATIENT, stall_seconds=0.0)


def replicas_of(*polls: Shard, timing: Timing = PATIENT, **client: Any) -> Replicas:
    return Replicas(
        client=Client(polls=list(polls), **client),  # type: ignore[arg-type]
        cluster="c",
        nodes=NODES,
        exist=True,
        timing=timing,
    )


@pytest.mark.parametrize("is_staged", [True, False])
def test_shared_parts_are_the_same_on_each_node(is_staged: bool) -> None:
    """The same number of rows in different parts are different rows; merges are no reason to differ."""
    late = Shard(names={"a2": 7}, taken={"a2": 2}, queue={"b2": ["q1"]})
    client = Client(polls=[late, Shard(taken={"a2": 2})], polled=0)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        client.polled += 1

    replicas = Replicas(
        client=client,  # type: ignore[arg-type]
        cluster="c",
        nodes=NODES,
        exist=True,
        are_shared=True,
        timing=Timing(sleep=sleep),
    )
    client.polled = 1
    assert agree(replicas, is_exact=False, is_staged=is_staged) == {"a1": "a1", "b1": "b1"}
    assert len(waits) == 1
    replicas.check(TABLE)


def polls_of(replicas: Replicas) -> int:
    assert isinstance(replicas.client, Client)
    return replicas.client.polled


def agree(replicas: Replicas, *, is_exact: bool = True, is_staged: bool = True) -> Mapping[str, str]:
    return replicas.agree(TABLE, is_exact=is_exact, is_staged=is_staged)


def test_one_node_of_each_shard_stands_for_all() -> None:
    replicas = replicas_of(Shard())
    assert agree(replicas) == {"a1": "a1", "b1": "b1"}
    assert polls_of(replicas) == 1


def test_a_replica_that_takes_long_is_asked_less_and_less_often() -> None:
    waits: list[float] = []
    behind = [Shard(queue={"a2": ["q1"]})] * 6
    agree(replicas_of(*behind, Shard(), timing=Timing(sleep=waits.append)))
    assert waits == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_statements_go_to_one_that_can_be_reached() -> None:
    """The group keeps the name of its first node, since a commit may be finished through other addresses."""
    assert agree(replicas_of(Shard(), reachable=frozenset({"a2", "b1", "b2"}))) == {"a1": "a2", "b1": "b1"}


def test_without_replicas_nobody_is_asked() -> None:
    replicas = Replicas(
        client=Client(polls=[]),  # type: ignore[arg-type]
        cluster="c",
        nodes=NODES,
        exist=False,
    )
    assert agree(replicas) == {node: node for node in SHARDS}


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(Shard(taken={"a2": 2}), id="log"),
        pytest.param(Shard(log_ends={"b2": 4}), id="log-of-the-writer"),
        pytest.param(Shard(taken={"b1": 4}), id="taken-by-the-writer-only"),
        pytest.param(Shard(queue={"b2": ["q1"]}), id="queue"),
        pytest.param(Shard(rows={"a1": 9}), id="rows"),
        pytest.param(Shard(read_only=["b1"]), id="read-only"),
    ],
)
def test_a_replica_that_is_late_is_waited_for(late: Shard) -> None:
    done = Shard(taken=dict.fromkeys(SHARDS, 4), log_ends=dict.fromkeys(SHARDS, 4))
    replicas = replicas_of(late, late, done)
    assert agree(replicas) == {"a1": "a1", "b1": "b1"}
    assert polls_of(replicas) == 3


def test_what_others_write_meanwhile_is_not_waited_for() -> None:
    polls = [
        Shard(queue={"a2": [f"q{number}", f"q{number + 1}"]}, taken=dict.fromkeys(SHARDS, 3 + number), rows={"a1": 9})
        for number in range(9)
    ]
    replicas = replicas_of(*polls)
    assert agree(replicas, is_staged=False) == {"a1": "a1", "b1": "b1"}
    assert polls_of(replicas) == 3


def test_rows_that_merges_change_are_not_compared() -> None:
    replicas = replicas_of(Shard(rows={"a1": 9}))
    assert agree(replicas, is_exact=False) == {"a1": "a1", "b1": "b1"}
    assert polls_of(replicas) == 2


def test_a_change_that_is_in_the_queue_a_moment_later_is_seen_without_rows() -> None:
    replicas = replicas_of(Shard(), Shard(queue={"a2": ["q1"]}), Shard())
    agree(replicas, is_exact=False)
    assert polls_of(replicas) == 3


def test_the_first_change_of_a_staging_table_is_waited_for() -> None:
    """Until a replica has read it, the log looks like an empty one."""
    empty = {"taken": dict.fromkeys(SHARDS, 0), "log_ends": dict.fromkeys(SHARDS, 0)}
    taken = {"a1": 1, "a2": 1, "b1": 0, "b2": 0}
    rows = {"b1": 0, "b2": 0}
    polls = [Shard(**empty, rows=rows), Shard(taken=taken, log_ends=taken, rows=rows)]  # type: ignore[arg-type]
    replicas = replicas_of(*polls)
    agree(replicas, is_exact=False)
    assert polls_of(replicas) == 3


def test_queued_merges_are_waited_for_where_asked() -> None:
    """In the staging table they would hide which of its parts have been moved."""
    replicas = replicas_of(Shard(merges={"a2": ["m1"]}), Shard(merges={"a2": ["m1"]}), Shard())
    agree(replicas)
    assert polls_of(replicas) == 1
    replicas = replicas_of(Shard(merges={"a2": ["m1"]}), Shard(merges={"a2": ["m1"]}), Shard())
    replicas.agree(TABLE, is_exact=True, is_staged=True, with_merges=True)
    assert polls_of(replicas) == 3


def test_a_fetch_that_goes_on_is_a_sign_of_life() -> None:
    """Even if the progress is too small to change the text."""
    polls = [Shard(queue={"a2": ["q1"]}, left_bytes=3 * 1024**3 - number) for number in range(5)]
    replicas = replicas_of(*polls, Shard(), timing=HASTY)
    agree(replicas)
    assert polls_of(replicas) == 6


def test_what_others_get_done_is_no_sign_of_life() -> None:
    polls = [Shard(queue={"a2": ["stuck"], "b2": [f"q{number}"]}, rows={"b1": number}) for number in range(9)]
    replicas = replicas_of(*polls, timing=HASTY)
    with pytest.raises(LoadError, match=coded("replica-behind", "a2", "1 change")):
        agree(replicas, is_staged=False)
    assert polls_of(replicas) < 5


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            Shard(queue={"a2": ["q1", "q2"]}, failure="Code: 234.\n No active replica has it."),
            "a2 is 2 changes behind, 3.0 GiB left to fetch (Code: 234. No active replica has it.)",
        ),
        (Shard(read_only=["b1"], failure="Session expired"), "b1 is read-only (Session expired)"),
        (
            Shard(read_only=["b1"]),
            "b1 is read-only (it has lost its connection to Keeper, or has other parts than Keeper lists; see its"
            " server's log)",
        ),
        (Shard(rows={"a1": 9}), "a1 has 9 rows; a2 has 10 rows"),
        (Shard(taken={"b1": 2}), "b1 has read 2 of 3 changes in the log"),
    ],
    ids=["queue", "read-only-for-a-reason", "read-only", "rows", "log"],
)
def test_replicas_that_get_nothing_done_are_an_error(state: Shard, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        agree(replicas_of(state, timing=HASTY))
    assert caught.value.sentence == (
        f"the replicas of d.t differ, and have made no progress for 0.0 s: {said}; check system.replication_queue"
        " there, then try again"
    )


def test_a_cluster_that_lacks_a_replica_is_refused() -> None:
    replicas = Replicas(
        client=Client(polls=[Shard()]),  # type: ignore[arg-type]
        cluster="c",
        nodes=NODES,
        exist=True,
    )
    replicas.check(TABLE)
    del SHARDS["b2"]
    try:
        with pytest.raises(TargetError) as caught:
            replicas.check(TABLE)
    finally:
        SHARDS["b2"] = 2
    assert caught.value.sentence == (
        "d.t has 2 replicas under /2, and the cluster 'c' only 1 of them (b1): a commit has to wait for all of them;"
        " set the connection's field cluster to one with every replica, or its field replicas to 'one' to load"
        " without the others, or drop a replica that is gone for good (SYSTEM DROP REPLICA)"
    )


def test_replicas_that_the_cluster_takes_for_shards_are_refused() -> None:
    nodes = [NodeSpec(host=host, shard=number, vcpus=1, memory_bytes=1) for number, host in enumerate(SHARDS)]
    replicas = Replicas(
        client=Client(polls=[Shard()]),  # type: ignore[arg-type]
        cluster="c",
        nodes=nodes,
        exist=True,
    )
    with pytest.raises(TargetError, match=coded("clusters-differ", "a1, a2", "d.t", "'c'")):
        replicas.check(TABLE)


def test_tables_whose_replicas_are_others_do_not_go_together() -> None:
    replicas = replicas_of(Shard())
    replicas.check_same(TABLE, TABLE)
    staged = TableName(database="d", table="staged")
    assert isinstance(replicas.client, Client)
    replicas.client.paths = {"staged": "/all"}
    with pytest.raises(TargetError) as caught:
        replicas.check_same(staged, TABLE)
    assert caught.value.sentence == (
        "the replicas of d.t are (a1, a2) and (b1, b2), and those of a table created like it are (a1, a2, b1, b2):"
        " the servers' macros {shard} and {replica}, or default_replica_path, do not match the table's path in"
        " Keeper; correct them, or re-create the table without a path"
    )
