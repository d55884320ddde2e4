"""What ``ch-s3 doctor`` says of faults that no sandbox can have; ``tests/sandbox/test_doctor.py`` has the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, NodeSpec
from airflow_provider_ch_s3.common.text import GIB
from airflow_provider_ch_s3.load.doctor import (
    CONNECTION_CHECKS,
    Check,
    Finding,
    NotKnown,
    State,
    Subject,
    _least_free,
    examine,
)

CLUSTER = ClusterSpec(
    name="c",
    nodes=tuple(NodeSpec(host=f"n{n}", shard=n, vcpus=4, memory_bytes=1 << 30) for n in (1, 2)),
    server_version=(26, 7),
    ingest_memory_ratio=0.5,
)


def look(check: str, rows: list[dict[str, Any]]) -> Finding:
    """Run one check of two nodes, whose answer is given: it stands for machines that a sandbox does not have."""
    client: Any = SimpleNamespace(query=lambda _: rows)
    subject = Subject(client=client, declaration=ClusterDeclaration(cluster="c"))
    vars(subject)["cluster"] = CLUSTER  # as if it had been looked at before
    (wanted,) = (one for one in CONNECTION_CHECKS if one.name == check)
    (finding,) = examine(subject, [wanted])
    return finding


def find(check: str, rows: list[dict[str, Any]]) -> tuple[State, str]:
    finding = look(check, rows)
    return finding.state, finding.text


def clocks(first: int, second: int) -> list[dict[str, Any]]:
    return [{"node": "n1:9000", "seconds": first}, {"node": "n2:9000", "seconds": second}]


APART = (
    "the clock of {} is {} ahead of that of {}; have the machines synchronize their clocks, for instance with chrony"
    " [clocks-differ]"
)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param((1_000, 1_060), (State.OK, "less than a minute apart"), id="just-near-enough"),
        pytest.param((1_000, 1_061), (State.FAILED, APART.format("n2:9000", "1 min 01 s", "n1:9000")), id="too-late"),
        pytest.param(
            (5_000, 1_000), (State.FAILED, APART.format("n1:9000", "1 h 06 min", "n2:9000")), id="too-early"
        ),
    ],
)
def test_clocks(seconds: tuple[int, int], expected: tuple[State, str]) -> None:
    """All nodes of a sandbox have the clock of one machine."""
    assert find("clocks", clocks(*seconds)) == expected


def test_what_failed_has_a_code() -> None:
    assert [look("clocks", clocks(0, seconds)).code for seconds in (0, 61)] == ["", "clocks-differ"]


def test_a_disk_without_a_size_has_no_total() -> None:
    assert _least_free({"n1": (65 * GIB, 0)}) == "65.0 GiB are free on n1"


def test_the_node_with_the_least_free_memory_is_named() -> None:
    rows = [{"node": f"n{n}", "free_bytes": (3 - n) << 30, "total_bytes": 8 << 30} for n in (1, 2)]
    state, text = find("nodes", rows)
    assert state is State.OK
    assert text.endswith("each; memory: 1.0 GiB of 8.0 GiB are free on n2, and no less on any other")


def test_what_could_not_be_looked_at_is_not_ticked() -> None:
    """A check that rests on it is made all the same: it may fail by itself."""
    subject: Any = None
    disk = Check(name="disk", run=lambda _: NotKnown("unknown: this user may not read system.disks"))
    after = Check(name="after", run=lambda _: "there", after=("disk",))
    assert [(one.check, one.state) for one in examine(subject, [disk, after])] == [
        ("disk", State.SKIPPED),
        ("after", State.OK),
    ]
