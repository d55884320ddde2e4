"""The rule that says when parts have settled."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, SettleError
from airflow_provider_ch_s3.table.settle import NodeParts, SettleRule, Verdict, judge_parts
from tests.failures import coded

RULE = SettleRule(max_parts=100, max_parts_per_partition=20, stable_seconds=10.0, stalled_seconds=600.0)


def node(name: str = "ch1", **values: Any) -> NodeParts:
    return NodeParts(
        **{"node": name, "active_parts": 5, "max_partition_parts": 5, "unchanged_seconds": 60.0} | values
    )


EMPTY = NodeParts(node="ch1")


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([EMPTY], id="empty-table"),
        pytest.param([node(active_parts=1)], id="one-part"),
        pytest.param([node(active_parts=100, max_partition_parts=20)], id="never-waits-for-one-part"),
        pytest.param([node(unchanged_seconds=10.0)], id="quiet-for-just-long-enough"),
        pytest.param([node(unchanged_seconds=100_000.0)], id="quiet-for-ever"),
        pytest.param([node(), EMPTY], id="a-node-without-rows"),
        pytest.param([node(failed_mutation="DELETE: no")], id="a-failing-mutation-of-few-parts"),
    ],
)
def test_settled(nodes: list[NodeParts]) -> None:
    verdict = judge_parts(RULE, nodes)
    assert (verdict.is_settled, verdict.left_seconds) == (True, 0.0)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        pytest.param([node(active_parts=101)], "ch1: 101 parts, 100 allowed", id="too-many"),
        pytest.param(
            [node(max_partition_parts=21)], "ch1: 21 parts in one partition, 20 allowed", id="too-many-in-a-partition"
        ),
        pytest.param([node(running_merges=2)], "ch1: 2 merges", id="merges-of-few-parts"),
        pytest.param([node(unchanged_seconds=9.9)], "ch1: parts changed 9.9 s ago", id="just-changed"),
        pytest.param([node(queued_changes=2)], "ch1: 2 changes in the replication queue", id="a-replica-behind"),
        pytest.param(
            [node(queued_changes=1, failing_seconds=599.0, failed_change="Code: 1. No.")],
            "ch1: 1 change in the replication queue",
            id="a-change-that-is-tried-again",
        ),
        pytest.param(
            [node(is_read_only=True, read_only_seconds=599.0)],
            "ch1: the replica has been read-only for 9 min 59 s",
            id="a-replica-that-starts",
        ),
        pytest.param(
            [node(is_read_only=True, queued_changes=2)],
            "ch1: the replica is read-only",
            id="a-read-only-replica-of-an-old-server",
        ),
        pytest.param(
            [node(active_parts=101, unchanged_seconds=599.0)],
            "ch1: 101 parts, 100 allowed",
            id="pause-between-merges",
        ),
        pytest.param(
            [node(active_parts=101, unchanged_seconds=9000.0, running_merges=1)],
            "ch1: 101 parts, 100 allowed",
            id="one-long-merge-is-not-stalled",
        ),
        pytest.param(
            [node(active_parts=101, running_merges=1, failed_mutation="DELETE: no")],
            "ch1: 101 parts, 100 allowed",
            id="merges-beside-a-failing-mutation",
        ),
        pytest.param(
            [node(), node("ch2", running_merges=1), node("ch3", active_parts=3000)],
            "ch2: 1 merge; ch3: 3,000 parts, 100 allowed",
            id="each-node-counts",
        ),
    ],
)
def test_not_settled(nodes: list[NodeParts], why: str) -> None:
    verdict = judge_parts(RULE, nodes)
    assert not verdict.is_settled
    assert f"waiting for {why}" in verdict.reason


def test_any_number_of_parts_per_partition_by_default() -> None:
    assert judge_parts(SettleRule(), [node(active_parts=3000, max_partition_parts=3000)]).is_settled
    assert not judge_parts(SettleRule(), [node(active_parts=3001, max_partition_parts=1)]).is_settled


@pytest.mark.parametrize(
    ("parts", "awaited", "left_seconds"),
    [
        pytest.param(node(running_merges=2, merge_left_seconds=30.0), "", 0.0, id="merges-of-few-parts"),
        pytest.param(node(unchanged_seconds=0.1), "", 0.0, id="just-changed"),
        pytest.param(node(queued_changes=3, queued_merges=3), "", 0.0, id="merges-in-the-queue"),
        pytest.param(
            node(queued_changes=3, queued_merges=2),
            "ch1: 1 change in the replication queue",
            None,
            id="a-part-to-fetch",
        ),
        pytest.param(
            node(active_parts=101, running_merges=1, merge_left_seconds=30.0),
            "ch1: 101 parts, 100 allowed; about 30.0 s left",
            30.0,
            id="too-many-and-merging",
        ),
        pytest.param(node(is_read_only=True), "ch1: the replica is read-only", None, id="read-only"),
    ],
)
def test_the_number_of_parts_alone(parts: NodeParts, awaited: str, left_seconds: float | None) -> None:
    verdict = judge_parts(dataclasses.replace(RULE, wait_for_merges=False), [parts])
    assert (verdict.is_settled, verdict.waiting, verdict.left_seconds) == (not awaited, awaited, left_seconds)
    assert not judge_parts(RULE, [parts]).is_settled


def test_too_many_parts_and_no_merge_are_an_error_though_no_merge_is_awaited() -> None:
    with pytest.raises(SettleError, match=coded("parts-not-merged", "101 parts", "100 allowed")):
        judge_parts(
            dataclasses.replace(RULE, wait_for_merges=False), [node(active_parts=101, unchanged_seconds=600.0)]
        )


def test_the_verdict_is_one_line_for_the_log() -> None:
    assert judge_parts(RULE, [node(active_parts=1500), node("ch2", running_merges=3, merge_left_seconds=20.0)]) == (
        Verdict(
            is_settled=False,
            reason="1,505 parts on 2 nodes, 3 merges running; waiting for ch1: 1,500 parts, 100 allowed;"
            " ch2: 3 merges",
            parts=1505,
            merges=3,
            waiting="ch1: 1,500 parts, 100 allowed; ch2: 3 merges",
            left_seconds=None,
        )
    )
    assert judge_parts(RULE, [node(), node("ch2")]).reason == "settled: 10 parts on 2 nodes, 0 merges running"


@pytest.mark.parametrize(
    ("nodes", "left_seconds"),
    [
        pytest.param([node(unchanged_seconds=4.0)], 6.0, id="the-rest-of-the-quiet-time"),
        pytest.param([node(running_merges=1, merge_left_seconds=30.0)], 40.0, id="merge-and-then-quiet"),
        pytest.param([node(running_merges=1)], None, id="a-merge-that-has-only-begun"),
        pytest.param([node(active_parts=101)], None, id="nobody-knows-the-next-merge"),
        pytest.param(
            [node(active_parts=101, running_merges=1, merge_left_seconds=30.0)], 40.0, id="too-many-and-merging"
        ),
        pytest.param(
            [node(unchanged_seconds=4.0), node("ch2", running_merges=1, merge_left_seconds=30.0), node("ch3")],
            40.0,
            id="the-slowest-node",
        ),
        pytest.param([node(unchanged_seconds=4.0), node("ch2", active_parts=101)], None, id="one-unknown-is-unknown"),
    ],
)
def test_estimate(nodes: list[NodeParts], left_seconds: float | None) -> None:
    verdict = judge_parts(RULE, nodes)
    assert verdict.left_seconds == left_seconds
    assert ("left" in verdict.reason) is (left_seconds is not None)


@pytest.mark.parametrize(
    ("stuck", "said"),
    [
        pytest.param(
            node("ch2", active_parts=101, unchanged_seconds=600.0),
            "ch2 has 101 parts, 100 allowed, and no merge has run for 10 min 00 s; merges may be stopped (SYSTEM"
            " START MERGES), the disk may be full (system.disks), or the limit may be lower than what the server"
            " merges down to (raise it)",
            id="stalled",
        ),
        pytest.param(
            node("ch2", max_partition_parts=21, unchanged_seconds=700.0),
            "ch2 has 21 parts in one partition, 20 allowed, and no merge has run for 11 min 40 s; merges may",
            id="stalled-in-a-partition",
        ),
        pytest.param(
            node("ch2", active_parts=101, unchanged_seconds=1.0, failed_mutation="DELETE WHERE x: no column x"),
            "ch2 has 101 parts, 100 allowed, and a mutation of the table fails: DELETE WHERE x: no column x; fix or"
            " kill it (system.mutations, KILL MUTATION)",
            id="failing-mutation",
        ),
    ],
)
def test_what_never_settles_is_an_error(stuck: NodeParts, said: str) -> None:
    with pytest.raises(SettleError) as caught:
        judge_parts(RULE, [node(), stuck])
    assert caught.value.sentence.startswith(said)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        pytest.param(
            {"max_parts": 0},
            "max_parts=0 can never be reached: a partition keeps at least 1 part; give 1 or more",
            id="parts",
        ),
        pytest.param(
            {"max_parts_per_partition": 0}, "max_parts_per_partition=0 can never be reached", id="partition"
        ),
        pytest.param(
            {"stable_seconds": -1}, "stable_seconds=-1 is not a duration; give seconds, 0 or more", id="stable"
        ),
        pytest.param({"stalled_seconds": -0.1}, "stalled_seconds=-0.1 is not a duration", id="stalled"),
    ],
)
def test_a_limit_that_can_never_be_reached_is_refused(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SettleRule(**limits)
    assert caught.value.sentence.startswith(said)


@pytest.mark.parametrize(
    ("replica", "said"),
    [
        (
            {"is_read_only": True, "read_only_seconds": 600.0},
            "the replica on ch1 has been read-only for 10 min 00 s: it has lost its connection to Keeper, or has"
            " other parts than Keeper lists; see its server's log",
        ),
        (
            {"queued_changes": 1, "failing_seconds": 600.0, "failed_change": "Code: 234. No replica has it."},
            "the replica on ch1 has failed to apply a change for 10 min 00 s: Code: 234. No replica has it.; see"
            " system.replication_queue there",
        ),
    ],
    ids=["read-only", "stuck"],
)
def test_a_replica_that_gets_nothing_done_is_an_error(replica: dict[str, Any], said: str) -> None:
    with pytest.raises(SettleError) as caught:
        judge_parts(RULE, [node("ch2"), node(**replica)])
    assert caught.value.sentence == said
