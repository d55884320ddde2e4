"""The rows that are kept: what is asked in which order, and what makes it fail; the engine's part: sandbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.spec import NodeSpec
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.modes.replace_where import SurvivorsOfCondition
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.replicas import Replicas
from airflow_provider_ch_s3.exactly_once.staging import Staging
from airflow_provider_ch_s3.exactly_once.tables import AttemptTables
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

ATTEMPT = AttemptId(load_id="ch-s3-0123456789abcdef0123", generation=0, number=7)


def partition(
    name: str, last_block: int = 1, *, version: int = 1, ranges: Any = ((0, 1),), rows: int = 5, has_deleted: int = 0
) -> dict[str, Any]:
    about = {"node": "n1", "partition_id": name, "rows": rows, "has_deleted": has_deleted}
    return {**about, "last_block": last_block, "version": version, "ranges": ranges}


def counted(rows: int, outside: int) -> list[dict[str, Any]]:
    return [{"ch_s3_rows": rows, "ch_s3_outside": outside}]


@dataclass
class Server:
    """Answers each statement by its name, the last answer again and again; keeps what it was told to do.

    Three new rows, and 5 in the target's partition, of which 2 stay.
    """

    answers: dict[str, list[list[dict[str, Any]]]]
    done: list[Statement] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)
    nodes: Sequence[str] = ("n1",)

    def query(self, statement: Statement, *, query_id: str | None = None) -> list[dict[str, Any]]:
        name = statement.name
        if name == "read_partitions" and "_merged'" in statement.text:
            name = "read_merged"
        answers = self.answers.get(name, [[]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def execute_everywhere(self, render: Callable[[str | None], Statement], *, query_id: str | None = None) -> None:
        self.done.append(render(None))
        self.ids.append(query_id)

    def execute(self, statement: Statement, *, query_id: str | None = None) -> None:
        self.done.append(statement)
        self.ids.append(query_id)

    def execute_on(self, nodes: Collection[str], statement: Statement, *, query_id: str | None = None) -> None:
        assert list(nodes) == list(self.nodes)
        self.done.append(statement)
        self.ids.append(query_id)


def server(**changes: list[list[dict[str, Any]]]) -> Server:
    counts = [counted(3, 0), counted(0, 0), counted(5, 2), counted(2, 2), counted(5, 2)]
    answers = {
        "touched_partitions": [[{"_partition_id": "p"}]],
        "read_partitions": [[partition("p"), partition("other")]],
        "count_outside": counts,
    }
    return Server(answers={**answers, **changes})


def tables_of(client: Any, staging: Staging, *, keeps_all_rows: bool = True) -> AttemptTables:
    return AttemptTables(
        client=client, staging=staging, attempt=ATTEMPT, epoch=8, keeps_all_rows=keeps_all_rows, views={}
    )


def survivors(client: Any, *staged: str) -> SurvivorsOfCondition:
    target = TableName(database="d", table="t")
    nodes = [NodeSpec(host="n1", shard=1, vcpus=1, memory_bytes=1)]
    replicas = Replicas(client=client, cluster=None, nodes=nodes, exist=False)
    return SurvivorsOfCondition(
        tables=tables_of(client, Staging(client=client, cluster=None, target=target, replicas=replicas)),
        plan=CommitPlan(
            load_mode="replace_where",
            replace_where="n < 10",
            partitions=dict.fromkeys(staged or ["p"], 3),
            table_uuids=["u"],
            keeps_all_rows=True,
            allow_empty=True,
        ),
    )


def test_the_new_rows_prove_that_none_stays_before_the_kept_ones_come() -> None:
    client = server()
    assert survivors(client).collect().partitions == ["p"]
    assert [statement.name for statement in client.done] == [
        "create_staging",
        "hold_merges",
        *("copy_partitions", "delete_rows", "await_deletion"),
        *("copy_partitions", "delete_rows", "await_deletion"),
        "attach_partitions",
    ]
    sources = [
        s.text.rpartition(" FROM ")[2].split("\n")[0]
        for s in client.done
        if s.name in ("copy_partitions", "attach_partitions")
    ]
    assert [source.endswith("_0_7_8`") for source in sources] == [True, False, True]
    assert sources[1] == "`d`.`t`"
    assert None not in client.ids[1:]
    assert len(set(client.ids[1:])) == 8


def test_a_hundred_partitions_are_linked_at_once() -> None:
    names = [f"p{number:03}" for number in range(201)]
    client = server(read_partitions=[[partition(name) for name in names]], touched_partitions=[[]])
    assert survivors(client, *names).collect().partitions == names
    linked = [
        s.text.count(" PARTITION ID") for s in client.done if s.name in ("copy_partitions", "attach_partitions")
    ]
    assert linked == [100, 100, 1] * 3


def is_collected_at_once(later: dict[str, Any], *, has_deleted: int = 0, existing: Sequence[int] = ()) -> bool:
    """Whether partition p counts as unchanged, if it had two parts before.

    :param existing: how many rows exist, for parts with deleted rows.
    """
    before = partition("p", 2, ranges=[(2, 2), (0, 1)], has_deleted=has_deleted)
    counted = [[{"node": "n1", "partition_id": "p", "rows": rows}] if rows else [] for rows in existing]
    client = server(read_partitions=[[before], [later]], count_visible=counted)
    client.answers["count_outside"] *= 2
    assert survivors(client).collect().partitions == ["p"]
    return [statement.name for statement in client.done].count("create_staging") == 1


@pytest.mark.parametrize(
    ("later", "is_unchanged"),
    [
        pytest.param(partition("p", 2, ranges=[(0, 2)]), True, id="merged"),
        pytest.param(partition("p", 3, ranges=[(0, 1), (2, 2), (3, 3)]), False, id="insert"),
        pytest.param(partition("p", 2, ranges=[(2, 2)]), False, id="drop-or-detach-part"),
        pytest.param(partition("p", 2, version=3, ranges=[(0, 1), (2, 2)]), False, id="mutation"),
        pytest.param(partition("other"), False, id="drop-partition"),
    ],
)
def test_what_others_do_meanwhile(later: dict[str, Any], is_unchanged: bool) -> None:
    assert is_collected_at_once(later) is is_unchanged


def test_a_merge_that_removes_rows_deleted_before_changes_nothing() -> None:
    merged = partition("p", 2, ranges=[(0, 2)], rows=3)
    assert is_collected_at_once(merged, has_deleted=1, existing=[3])
    assert not is_collected_at_once(merged)


@pytest.mark.parametrize(
    ("later", "existing"),
    [
        pytest.param(partition("p", 2, ranges=[(0, 2)], rows=2), [3], id="merged"),
        pytest.param(partition("p", 2, ranges=[(0, 2)], has_deleted=1), [3, 2], id="rows-are-still-marked"),
        pytest.param(partition("p", 2, ranges=[(0, 2)], has_deleted=1), [3, 0], id="no-row-left"),
    ],
)
def test_a_part_that_is_dropped_beside_rows_deleted_before(later: dict[str, Any], existing: Sequence[int]) -> None:
    assert not is_collected_at_once(later, has_deleted=1, existing=existing)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"count_outside": [counted(3, 1), counted(1, 1)]},
            coded("expression-not-repeatable", "'n < 10'", "1 staged row"),
            id="a-new-row-would-stay",
        ),
        pytest.param(
            {"count_outside": [counted(3, 0), counted(1, 0)]},
            coded("expression-not-repeatable", "SELECT", "0 rows", "d.t", "mutation", "1"),
            id="a-mutation-kept-a-new-row",
        ),
        pytest.param(
            {"count_outside": [counted(3, 0), counted(0, 0), counted(5, 2), counted(1, 1)]},
            coded("expression-not-repeatable", "SELECT", "2 rows", "d.t", "mutation", "1", "session_timezone"),
            id="a-mutation-took-too-much",
        ),
        pytest.param(
            {"count_outside": [counted(3, 0), counted(0, 0), counted(5, 2), counted(2, 2), counted(4, 2)]},
            coded("staged-rows-changed", "_merged", "4 rows", "2 kept", "3 new"),
            id="a-part-was-left-out",
        ),
        pytest.param(
            {"read_merged": [[partition("p"), partition("q")]]},
            coded("staged-rows-changed", "_merged", "partition q"),
            id="a-partition-was-left-out",
        ),
        pytest.param(
            {"unapplied_changes": [[{"node": "n1", "name": "mutation_3.txt", "change": "UPDATE v = 1 WHERE 1"}]]},
            coded("mutation-unfinished", "n1", "d.t", "mutation_3.txt: UPDATE v = 1 WHERE 1"),
            id="a-mutation-is-on-its-way",
        ),
        pytest.param(
            {"unapplied_changes": [[], [{"node": "n1", "name": "mutation_3.txt", "change": "UPDATE v = 1 WHERE 1"}]]},
            coded("mutation-unfinished", "n1", "d.t"),
            id="a-mutation-came-meanwhile",
        ),
        pytest.param(
            {
                "read_partitions": [[partition("p", block)] for block in range(20)],
                "count_outside": [counted(0, 0)],
            },
            coded("table-changed-meanwhile", "d.t 3 times"),
            id="others-write-all-the-time",
        ),
    ],
)
def test_what_cannot_be_kept_fails(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        survivors(server(**changes)).collect()
