"""Random arrivals around watchers of new files, and their oracle; ``make faults-watchers`` runs any number."""

from __future__ import annotations

import os

import pytest

from tests.faults.arrivals import Arrivals, Rows, WrongError, rows_of
from tests.faults.harness import Harness
from tests.faults.watchers import STEPS, format_walks, walk_all

SEED = int(os.environ["CH_S3_FAULTS_SEED"])  # tests/conftest.py
A, B = ("a", 1), ("b", 1)


@pytest.mark.sandbox
@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("runs", "steps"), [(1, 4), (20, STEPS)], ids=["one", "more"])
def test_each_file_is_loaded_once_and_no_watcher_is_awake_for_ever(forking: Harness, runs: int, steps: int) -> None:
    walks = list(walk_all(forking, SEED, range(runs), steps))
    assert "".join(str(walk) for walk in walks if walk.wrong) == ""
    assert format_walks(walks).startswith("watchers: OK")


def arrived() -> Arrivals:
    """``a`` is in the table, and a load of ``b`` has failed before ``again_after`` passed."""
    arrivals = Arrivals(versions={"a": 1, "b": 1})
    arrivals.end_load({A}, rows_of(A), is_sure=True, times=0)
    arrivals.end_load({B}, rows_of(A), is_sure=False, times=0)
    return arrivals


@pytest.mark.parametrize(
    ("named", "is_due", "times", "is_right"),
    [
        pytest.param(set(), True, 0, True, id="the load may still run"),
        pytest.param({B}, True, 0, True, id="it may have failed for good"),
        pytest.param(set(), True, 1, False, id="lost"),
        pytest.param({A, B}, True, 1, False, id="loaded already"),
        pytest.param({B}, False, 1, False, id="told for no reason"),
        pytest.param({("b", 2)}, True, 1, False, id="not there"),
        pytest.param(1, True, 1, True, id="one"),
        pytest.param(2, True, 1, False, id="too many"),
    ],
)
def test_which_events_are_right(named: set[tuple[str, int]] | int, is_due: bool, times: int, is_right: bool) -> None:
    arrivals = arrived()
    try:
        arrivals.check_event(
            named, listed=arrivals.files, underway=set(), rows=rows_of(A), is_due=is_due, times=times
        )
    except WrongError:
        assert not is_right
    else:
        assert is_right


def test_a_planned_file_is_not_told_of() -> None:
    arrivals = arrived()
    with pytest.raises(WrongError):
        arrivals.check_event({B}, listed=arrivals.files, underway={B}, rows=rows_of(A), is_due=True, times=0)


def test_a_table_holds_each_file_once() -> None:
    arrivals = Arrivals(versions={"a": 2, "no rows": 0})
    arrivals.check_table(rows_of(("a", 2)) + rows_of(("gone", 1)))
    for wrong in (
        Rows(),
        rows_of(("a", 1)),
        rows_of(("a", 2)) + rows_of(("a", 1)),
        rows_of(("a", 2)) + rows_of(("a", 2)),
    ):
        with pytest.raises(WrongError):
            arrivals.check_table(wrong)
    with pytest.raises(WrongError):
        arrivals.end_load({("a", 2)}, rows_of(("a", 1)), is_sure=True, times=0)
