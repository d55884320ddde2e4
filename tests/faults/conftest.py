"""The harness in its two forms, and the points that a load without faults passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.harness import Harness, running_harness
from tests.faults.points import Traces


@pytest.fixture(scope="package")
def forking() -> Iterator[Harness]:
    """A harness that runs tasks in forked processes: the real scheduler would take five times as long."""
    with running_harness(has_airflow=False) as harness:
        yield harness


@pytest.fixture(scope="package")
def traces(forking: Harness) -> Traces:
    """The points of loads without faults."""
    return Traces(harness=forking)


@pytest.fixture
def scheduling() -> Iterator[Harness]:
    """A harness that runs tasks in a real Airflow."""
    with running_harness() as harness:
        yield harness
