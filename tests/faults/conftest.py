"""The harness in its two forms, and the points that a load without faults passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.faults.harness import Harness, running_harness
from tests.faults.plans import Points
from tests.faults.points import trace_loads


@pytest.fixture(scope="package")
def forking() -> Iterator[Harness]:
    """A harness that runs tasks in forked processes: the real scheduler would take five times as long."""
    with running_harness(has_airflow=False) as harness:
        yield harness


@pytest.fixture(scope="package")
def points(forking: Harness) -> Mapping[tuple[str, bool], Points]:
    """The points of a load, by mode and whether the task defers."""
    return trace_loads(forking)


@pytest.fixture
def scheduling() -> Iterator[Harness]:
    """A harness that runs tasks in a real Airflow."""
    with running_harness() as harness:
        yield harness
