"""Random faults with a fresh seed, each kind once.

``make faults`` runs any number, on a real Airflow.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.harness import Harness
from tests.faults.oracle import FAILED_CHECK
from tests.faults.plans import WEIGHTS, Kind, random_plan, random_way
from tests.faults.points import Traces
from tests.faults.report import format_report, is_good

pytestmark = [pytest.mark.sandbox, pytest.mark.faults, pytest.mark.thorough, pytest.mark.timeout(1800)]

SEED = int(os.environ["CH_S3_FAULTS_SEED"])  # tests/conftest.py
KINDS = list(WEIGHTS)


def check(harness: Harness, traces: Traces, kinds: set[Kind]) -> None:
    # the first plans of a seed are one of each kind, then comes a check that fails
    numbers = [*(number for number, kind in enumerate(KINDS) if kind in kinds), len(KINDS)]
    points = traces.of(random_way(SEED, number)[1] for number in numbers)
    plans = [random_plan(SEED, number, points) for number in numbers]
    outcomes = harness.run_all(plans, on_outcome=lambda _: None)
    assert is_good(outcomes), f"CH_S3_FAULTS_SEED={SEED}\n{format_report(outcomes)}"
    assert {outcome.plan.kind for outcome in outcomes} == kinds | {KINDS[0]}
    assert FAILED_CHECK in {outcome.plan.mode for outcome in outcomes}


def test_in_forked_processes(forking: Harness, traces: Traces) -> None:
    check(forking, traces, {kind for kind in KINDS if not kind.needs_airflow})


@pytest.mark.airflow_run
def test_of_a_real_airflow(scheduling: Harness, traces: Traces) -> None:
    needed = {kind for kind in KINDS if kind.needs_airflow}
    check(scheduling, traces, {*needed, Kind.KILL_WORKER})
