"""Random faults with a fresh seed, each kind at least once; ``make faults`` runs any number, on a real Airflow."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from tests.faults.harness import Harness
from tests.faults.plans import WEIGHTS, Kind, Points, random_plan
from tests.faults.report import format_report, is_good

pytestmark = [pytest.mark.sandbox, pytest.mark.faults, pytest.mark.timeout(900)]

SEED = int(os.environ["CH_S3_FAULTS_SEED"])  # tests/conftest.py
KINDS = list(WEIGHTS)


def check(harness: Harness, points: Mapping[tuple[str, bool], Points], kinds: set[Kind]) -> None:
    # the first plans of a seed are one of each kind
    plans = [random_plan(SEED, number, points) for number, kind in enumerate(KINDS) if kind in kinds]
    outcomes = harness.run_all(plans, on_outcome=lambda _: None)
    assert is_good(outcomes), f"CH_S3_FAULTS_SEED={SEED}\n{format_report(outcomes)}"
    assert {outcome.plan.kind for outcome in outcomes} == kinds


# similar to other kinds
SIMILAR = {
    Kind.S3_503,
    Kind.S3_SLOW,
    Kind.S3_RESET,
    Kind.OBJECT_DELETED,
    Kind.OBJECT_NEW,
    Kind.KILL_WORKER,
    Kind.KILL_CLUSTER,
    Kind.CUT_NETWORK,
    Kind.KILL_IN_MOVE,  # test_killed_in_move.py
}


def test_in_forked_processes(forking: Harness, points: Mapping[tuple[str, bool], Points]) -> None:
    check(forking, points, {kind for kind in KINDS if not kind.needs_airflow} - SIMILAR)


@pytest.mark.thorough
def test_similar_ones_in_forked_processes(forking: Harness, points: Mapping[tuple[str, bool], Points]) -> None:
    check(forking, points, SIMILAR)


@pytest.mark.airflow_run
@pytest.mark.thorough
def test_of_a_real_airflow(scheduling: Harness, points: Mapping[tuple[str, bool], Points]) -> None:
    needed = {kind for kind in KINDS if kind.needs_airflow}
    check(scheduling, points, {*needed, Kind.KILL_WORKER})
