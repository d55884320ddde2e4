"""Random faults with a fresh seed, each kind once.

``make faults`` runs any number, on a real Airflow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest

from tests.faults.harness import Harness, running_harness
from tests.faults.oracle import FAILED_CHECK, MODES, REJECT
from tests.faults.plans import REPLICATED_WEIGHTS, WEIGHTS, Kind, Plan, random_plan, random_way
from tests.faults.points import Traces
from tests.faults.report import format_report, is_good
from tests.faults.sources import AZURE, STORES
from tests.sandbox.topologies import TOPOLOGIES

pytestmark = [pytest.mark.sandbox, pytest.mark.faults, pytest.mark.thorough, pytest.mark.timeout(1800)]

SEED = int(os.environ["CH_S3_FAULTS_SEED"])  # tests/conftest.py
KINDS = list(WEIGHTS)


def check(
    harness: Harness,
    traces: Traces,
    numbers: Sequence[int],
    weights: Mapping[Kind, int] = WEIGHTS,
    modes: Sequence[str] = MODES,
    stores: Sequence[str] = STORES,
) -> list[Plan]:
    """Run some plans of the seed; returns these plans."""
    points = traces.of(random_way(SEED, number, weights, modes)[1] for number in numbers)
    plans = [random_plan(SEED, number, points, weights, modes, stores) for number in numbers]
    outcomes = harness.run_all(plans, on_outcome=lambda _: None)
    assert is_good(outcomes), f"CH_S3_FAULTS_SEED={SEED}\n{format_report(outcomes)}"
    return plans


def check_each(harness: Harness, traces: Traces, kinds: set[Kind]) -> None:
    # the first plans of a seed are one of each kind, then comes a check that fails
    numbers = [*(number for number, kind in enumerate(KINDS) if kind in kinds), len(KINDS)]
    plans = check(harness, traces, numbers)
    assert {plan.kind for plan in plans} == kinds | {KINDS[0]}
    assert FAILED_CHECK in {plan.mode for plan in plans}


def test_in_forked_processes(forking: Harness, traces: Traces) -> None:
    check_each(forking, traces, {kind for kind in KINDS if not kind.needs_airflow})


@pytest.mark.airflow_run
def test_of_a_real_airflow(scheduling: Harness, traces: Traces) -> None:
    needed = {kind for kind in KINDS if kind.needs_airflow}
    check_each(scheduling, traces, {*needed, Kind.KILL_WORKER})


@pytest.mark.parametrize("topology", ["on-cluster", "old", "database"])
def test_the_faults_of_replicas(topology: str) -> None:
    with running_harness(TOPOLOGIES[topology], has_airflow=False) as harness:
        own = len(REPLICATED_WEIGHTS.keys() - WEIGHTS.keys())
        # servers of 24.8 do not number the lines of a file, and take no key of Azure from a connection
        modes = [mode for mode in MODES if mode != REJECT]
        stores = [store for store in STORES if store != AZURE]
        plans = check(harness, Traces(harness=harness), range(own), REPLICATED_WEIGHTS, modes, stores)
    assert {plan.kind for plan in plans} == REPLICATED_WEIGHTS.keys() - WEIGHTS.keys()
