"""What a merge asks in which order, and what makes it fail; the engine's part: sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import pytest

from airflow_provider_ch_s3.cluster.spec import NodeSpec
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.modes.merge import SurvivorsOfMerge
from airflow_provider_ch_s3.exactly_once.records import CommitPlan
from airflow_provider_ch_s3.exactly_once.replicas import Replicas
from airflow_provider_ch_s3.exactly_once.staging import Staging
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded
from tests.unit.exactly_once.test_survivors import Server, counted, partition, tables_of

# Three staged rows: a new one, one that is newer, and a late one.
SUM: dict[str, Any] = {
    "rows": 3,
    "inserted": 1,
    "updated": 1,
    "deleted": 0,
    "unchanged": 0,
    "late": 1,
    "doubled": 0,
    "added": 2,
    "dropped": 1,
    "undecided": 0,
    "added_in": [crc32(b"q")],
    "dropped_in": [crc32(b"p")],
}
COLUMNS = [
    {"node": "n1", "name": name, "type": "UInt8", "default_kind": kind, "default_expression": ""}
    for name, kind in (("id", ""), ("at", ""), ("made", "MATERIALIZED"))
]


def server(**changes: list[list[dict[str, Any]]]) -> Server:
    answers = {
        "read_columns": [COLUMNS],
        "read_table": [[{"engine_full": "MergeTree ORDER BY id SETTINGS index_granularity = 8192"}]],
        "sum_changes": [[SUM]],
        "read_sizes": [[{"partition_id": name, "rows": 5, "bytes": 70} for name in ("p", "other")]],
        "read_partitions": [[partition("p"), partition("other")]],
        "count_outside": [counted(5, 4), counted(4, 4), counted(6, 6)],
    }
    return Server(answers={**answers, **changes})


def merge(
    client: Server,
    *,
    shards: int = 1,
    keeps_all_rows: bool = True,
    staged: Mapping[str, int] = {"q": 3},
    version: str = "at",
    **rule: Any,
) -> tuple[list[str], dict[str, int]]:
    target = TableName(database="d", table="t")
    nodes = [NodeSpec(host=f"n{n}", shard=n, vcpus=1, memory_bytes=1) for n in range(1, shards + 1)]
    replicas = Replicas(client=client, cluster=None, nodes=nodes, exist=False)
    staging = Staging(client=client, cluster="c" if shards > 1 else None, target=target, replicas=replicas)
    survivors = SurvivorsOfMerge(
        tables=tables_of(client, staging, keeps_all_rows=keeps_all_rows),
        plan=CommitPlan(
            load_mode="merge",
            partitions=staged,
            table_uuids=["u"],
            keeps_all_rows=keeps_all_rows,
            allow_empty=True,
        ),
        rule=MergeRule(key=("id",), version=version, **rule),
    )
    collected = survivors.collect()
    return list(collected.partitions), dict(collected.counts)


def test_old_rows_go_before_the_new_ones_come() -> None:
    client = server()
    touched, counts = merge(client)
    assert touched == ["p", "q"]
    assert [statement.name for statement in client.done] == [
        *("create_changes", "find_changes", "create_staging", "hold_merges"),
        *("copy_partitions", "delete_dropped", "await_deletion", "insert_winners"),
    ]
    assert counts == {
        **{name: SUM[name] for name in ("inserted", "updated", "deleted", "unchanged", "late", "added", "dropped")},
        "rewritten_partitions": 1,
        "rewritten_rows": 5,
        "rewritten_bytes": 70,
    }
    assert "(`id`, `at`)" in client.done[-1].text  # MATERIALIZED columns are computed


def test_nothing_is_deleted_if_nothing_is_to_go() -> None:
    new = {**SUM, "updated": 0, "dropped": 0, "dropped_in": []}
    client = server(sum_changes=[[new]], count_outside=[counted(5, 5), counted(7, 7)])
    _, counts = merge(client)
    assert "delete_dropped" not in {statement.name for statement in client.done}
    assert counts["rewritten_bytes"] == 0


@pytest.mark.parametrize(("staged_rows", "parts"), [(1, 1), (1_000_000, 1), (1_000_001, 2), (2_500_000, 3)])
def test_a_statement_compares_a_million_new_rows_at_most(staged_rows: int, parts: int) -> None:
    client = server(sum_changes=[[{**SUM, "rows": staged_rows}]])
    merge(client, staged={"q": staged_rows})
    texts = [one.text for one in client.done if one.name == "find_changes"]
    assert len(texts) == parts
    hashed = [f"cityHash64(`id`) % {parts} = {number}" for number in range(parts)] if parts > 1 else ["WHERE 1"]
    assert all(text.count(condition) == 2 for condition, text in zip(hashed, texts, strict=True))


def texts_of(client: Server, name: str) -> list[str]:
    return [one.text for one in client.done if one.name == name]


def test_only_keys_with_the_version_that_the_table_has_are_compared_by_their_values() -> None:
    client = server(sum_changes=[[{**SUM, "undecided": 1, "rows": 2}], [SUM]])
    _, counts = merge(client)
    first, second = texts_of(client, "find_changes")
    assert ["ch_s3_digest" in text for text in (first, second)] == [False, True]
    assert second.count("_changes` WHERE ch_s3_outcome = 'undecided' AND 1") == 2
    assert counts["inserted"] == 1
    client = server()
    merge(client, version="")
    assert ["ch_s3_digest" in text for text in texts_of(client, "find_changes")] == [True]


def test_each_partition_deletes_by_its_own_keys() -> None:
    sizes = [{"partition_id": name, "rows": 5, "bytes": 70} for name in ("p", "q", "other")]
    client = server(
        sum_changes=[[{**SUM, "dropped_in": [crc32(b"p"), 0]}]],
        touched_partitions=[[{"_partition_id": "q"}]],
        read_sizes=[sizes],
    )
    touched, counts = merge(client)
    assert touched == ["p", "q"]
    assert counts["rewritten_partitions"] == 2  # q holds a row of a key that other partitions hold, too
    (text,) = texts_of(client, "delete_dropped")
    for name in ("p", "q"):
        assert f"DELETE IN PARTITION ID '{name}'" in text
        assert f"ch_s3_held_in IN (0, {crc32(name.encode())})" in text
    assert "other" not in text


def test_a_statement_copies_four_million_new_rows_at_most_unless_they_are_in_one_partition() -> None:
    staged = {"a": 3_000_000, "b": 1_000_000, "c": 1, "d": 5_000_000, "unchanged": 9}
    numbers = [crc32(name.encode()) for name in "abcd"]
    client = server(sum_changes=[[{**SUM, "rows": sum(staged.values()), "added_in": numbers}]])
    merge(client, staged=staged)
    assert [
        text.partition("_partition_id IN ")[2].splitlines()[0] for text in texts_of(client, "insert_winners")
    ] == [
        *("('a', 'b')", "('c')", "('d')"),
    ]


def test_each_shard_gets_to_know_what_changes() -> None:
    client = server()
    client.nodes = ["n1", "n2", "n3"]
    merge(client, shards=3)
    copied = [statement.text for statement in client.done if statement.name == "copy_changes"]
    assert ["insert_shard_id = 2" in copied[0], "insert_shard_id = 3" in copied[1]] == [True, True]
    assert len(copied) == 2


def test_a_key_that_is_there_twice_is_left_once() -> None:
    client = server(sum_changes=[[{**SUM, "doubled": 1}]])
    merge(client, collapses=True)
    winners = [statement.text for statement in client.done if statement.name == "insert_winners"]
    assert ["'staged'" in winners[0], "'held'" in winners[1]] == [True, True]


@pytest.mark.parametrize(
    ("changes", "rule", "message"),
    [
        pytest.param(
            {"sum_changes": [[{**SUM, "doubled": 1}]], "read_doubled": [[{"id": 7, "ch_s3_rows": 2}]]},
            {},
            coded("merge-keys-doubled", "d.t", "1 key", "(id=7, ch_s3_rows=2)", "'collapse'"),
            id="a-key-twice",
        ),
        pytest.param(
            {},
            {"max_rewritten_bytes": 69},
            coded("merge-too-large", "1 partition with 5 rows, 70 B of d.t", "max_rewritten_bytes=69"),
            id="too-much",
        ),
        pytest.param(
            {"sum_changes": [[{**SUM, "rows": 2}]]},
            {"keeps_all_rows": False},
            coded("staged-rows-changed", "_changes", "2 rows", "3"),
            id="a-row-was-left-out",
        ),
        pytest.param(
            {"count_outside": [counted(5, 4), counted(4, 4), counted(5, 5)]},
            {},
            coded("staged-rows-changed", "_merged", "5 rows", "4 kept", "2 new"),
            id="a-new-row-was-left-out",
        ),
        pytest.param(
            {"count_outside": [counted(5, 4), counted(5, 5)]},
            {},
            coded("expression-not-repeatable", "key=['id']", "4 rows", "d.t", "5"),
            id="an-old-row-stayed",
        ),
        pytest.param(
            {
                "read_partitions": [[partition("p", block)] for block in range(20)],
                "count_outside": [counted(5, 4), counted(4, 4), counted(6, 6)] * 3,
            },
            {},
            coded("table-changed-meanwhile", "d.t 3 times"),
            id="others-write-all-the-time",
        ),
    ],
)
def test_what_cannot_be_merged_fails(changes: dict[str, Any], rule: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        merge(server(**changes), **rule)
