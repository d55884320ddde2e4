"""Random faults with a fresh seed: for a push those that no other test has, in `make test-all` each kind.

``make faults`` runs any number, on a real Airflow.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.harness import Harness
from tests.faults.judge import Outcome
from tests.faults.oracle import FAILED_CHECK
from tests.faults.plans import WEIGHTS, Kind, random_plan, random_way
from tests.faults.points import Traces
from tests.faults.report import format_report, is_good

pytestmark = [pytest.mark.sandbox, pytest.mark.faults, pytest.mark.timeout(1800)]

SEED = int(os.environ["CH_S3_FAULTS_SEED"])  # tests/conftest.py
KINDS = list(WEIGHTS)


def run(harness: Harness, traces: Traces, numbers: list[int]) -> list[Outcome]:
    """Run the plans with these numbers: one of each kind, then a check that fails."""
    points = traces.of(random_way(SEED, number)[1] for number in numbers)
    plans = [random_plan(SEED, number, points) for number in numbers]
    outcomes = harness.run_all(plans, on_outcome=lambda _: None)
    assert is_good(outcomes), f"CH_S3_FAULTS_SEED={SEED}\n{format_report(outcomes)}"
    return outcomes


# similar to other kinds, or tested elsewhere
SIMILAR = {
    Kind.STORE_500,
    Kind.OBJECT_CHANGED,
    Kind.SAME_RUN_AGAIN,  # test_run_again.py
    Kind.ALTER_TABLE,  # test_altered_target.py
    Kind.STALL_NETWORK,
    Kind.LEDGER_AWAY,
    Kind.OUT_OF_MEMORY,  # test_reduced.py
    Kind.OTHER_NAMES,  # test_two_connections.py
    Kind.STORE_503,
    Kind.STORE_SLOW,
    Kind.STORE_RESET,
    Kind.STORE_TRUNCATED,  # test_stores.py
    Kind.OBJECT_DELETED,
    Kind.OBJECT_NEW,
    Kind.KILL_WORKER,
    Kind.KILL_TWICE,  # TestKill in test_exactly_once.py
    Kind.KILL_NODE,  # test_a_node_that_dies_during_the_insert in test_exactly_once.py
    Kind.KILL_CLUSTER,
    Kind.CUT_NETWORK,
    Kind.KILL_IN_MOVE,  # test_killed_in_move.py
    Kind.EDITED_ARGUMENTS,  # TestEditedArguments in test_exactly_once.py
    Kind.LOWERED_RETRIES,  # TestRetryOrClear in test_exactly_once.py
    Kind.RENAMED_TABLE,  # test_renamed.py
    Kind.DROPPED_LEDGER,  # TestDroppedLedger in test_exactly_once.py
    Kind.HOSTILE_PROFILE,  # test_hostile_profile.py
    Kind.NEW_VIEW,  # test_views.py
    Kind.DENIED_DISPOSAL,  # test_after_load.py
    Kind.PEOPLE,  # test_people.py
    Kind.ONLY_MARKERS,  # test_replace_files.py
    Kind.MERGED_FILE_CHANGED,  # test_replace_files.py
    Kind.RENAMED_AND_CHANGED,  # test_renamed.py
    Kind.MANY_CHANGED,  # takes minutes
    Kind.NEWER_PROFILE,  # test_hostile_profile.py
}


@pytest.mark.push
def test_in_forked_processes(forking: Harness, traces: Traces) -> None:
    kinds = {kind for kind in KINDS if not kind.needs_airflow} - SIMILAR
    outcomes = run(forking, traces, [KINDS.index(kind) for kind in kinds])
    assert {outcome.plan.kind for outcome in outcomes} == kinds


@pytest.mark.thorough
def test_similar_ones_in_forked_processes(forking: Harness, traces: Traces) -> None:
    outcomes = run(forking, traces, [*map(KINDS.index, SIMILAR), len(KINDS)])
    assert {outcome.plan.kind for outcome in outcomes} == SIMILAR | {KINDS[0]}
    assert FAILED_CHECK in {outcome.plan.mode for outcome in outcomes}


@pytest.mark.airflow_run
@pytest.mark.thorough
def test_of_a_real_airflow(scheduling: Harness, traces: Traces) -> None:
    needed = {kind for kind in KINDS if kind.needs_airflow}
    outcomes = run(scheduling, traces, [*map(KINDS.index, {*needed, Kind.KILL_WORKER}), len(KINDS)])
    assert {outcome.plan.kind for outcome in outcomes} == {*needed, Kind.KILL_WORKER, KINDS[0]}
