"""What ``ch-s3 doctor`` says of faults that no sandbox can have; ``tests/sandbox/test_doctor.py`` has the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, NodeSpec
from airflow_provider_ch_s3.errors import ErrorCode, ServerError
from airflow_provider_ch_s3.load.doctor import CONNECTION_CHECKS, LOAD_CHECKS, State, Subject, examine

GIB = 1 << 30
CLUSTER = ClusterSpec(
    name="c",
    nodes=tuple(NodeSpec(host=f"n{n}", shard=n, vcpus=4, memory_bytes=GIB) for n in (1, 2)),
    server_version=(26, 7),
    ingest_memory_ratio=0.5,
)


def find(check: str, rows: list[dict[str, Any]] | ServerError, *, load_bytes: int = 0) -> tuple[State, str]:
    """Run one check of two nodes, whose answers are given: they stand for machines that a sandbox does not have.

    :param load_bytes: size of the files of the load.
    """

    def query(_: object) -> list[dict[str, Any]]:
        if isinstance(rows, ServerError):
            raise rows
        return rows

    client: Any = SimpleNamespace(query=query)
    subject = Subject(client=client, declaration=ClusterDeclaration(cluster="c"), find_load=pytest.fail)
    vars(subject).update(
        cluster=CLUSTER, prepared=SimpleNamespace(source=SimpleNamespace(size_bytes=load_bytes))
    )  # as if they had been looked at before
    (wanted,) = (one for one in (*CONNECTION_CHECKS, *LOAD_CHECKS) if one.name == check)
    (finding,) = examine(subject, [wanted])
    return finding.state, finding.text


def clocks(first: int, second: int) -> list[dict[str, Any]]:
    return [{"node": "n1:9000", "seconds": first}, {"node": "n2:9000", "seconds": second}]


def disks(first: int, second: int) -> list[dict[str, Any]]:
    return [{"node": "n1:9000", "free_bytes": first}, {"node": "n2:9000", "free_bytes": second}]


APART = (
    "the clock of {} is {} ahead of that of {}; have the machines synchronize their clocks, for instance with chrony"
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


@pytest.mark.parametrize(
    ("free_bytes", "load_bytes", "expected"),
    [
        pytest.param(
            (8 * GIB, 3 * GIB),
            3 * GIB,
            (State.OK, "3.0 GiB are free on n2:9000, and no less on any other"),
            id="room",
        ),
        pytest.param(
            (8 * GIB, 3 * GIB),
            4 * GIB,
            (
                State.FAILED,
                "only 3.0 GiB are free on n2:9000, and the load may take 4.0 GiB per node; make room",
            ),
            id="one-is-too-full",
        ),
    ],
)
def test_disk(free_bytes: tuple[int, int], load_bytes: int, expected: tuple[State, str]) -> None:
    """All nodes of a sandbox have the disk of one machine, which no test may fill."""
    assert find("disk", disks(*free_bytes), load_bytes=load_bytes) == expected


def test_a_disk_that_the_user_may_not_see() -> None:
    denied = ServerError(
        "Code: 497. DB::Exception: Not enough privileges. (ACCESS_DENIED)", code=ErrorCode.ACCESS_DENIED
    )
    assert find("disk", denied, load_bytes=GIB) == (State.OK, "unknown: this user may not read system.disks")
