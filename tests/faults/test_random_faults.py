"""Random faults, each kind at least once, on a real Airflow with a real scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.__main__ import random_plans
from tests.faults.harness import Harness, running_harness
from tests.faults.plans import Kind
from tests.faults.report import format_report, is_good

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run, pytest.mark.faults, pytest.mark.timeout(900)]

SEED = 20
RUNS = 32


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with running_harness() as harness:
        yield harness


def test_random_faults(harness: Harness) -> None:
    outcomes = harness.run_all(random_plans(harness, SEED, range(RUNS)), on_outcome=lambda _: None)
    assert is_good(outcomes), format_report(outcomes)
    assert {outcome.plan.kind for outcome in outcomes} == set(Kind) - {Kind.NONE}
