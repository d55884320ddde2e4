"""Any two levels of two factors, and each refusal, on real servers; ``make combinations`` tries any three.

All pairs are too many for a push, which has a few runs with as many levels as possible.
"""

from __future__ import annotations

import pytest

from tests.combinations.array import Levels, cover
from tests.combinations.factors import FACTORS, Case, case_of
from tests.combinations.process import SEED
from tests.combinations.run import Runner
from tests.combinations.together import goes_together, refused_cases
from tests.sandbox.conftest import Lab

pytestmark = [pytest.mark.sandbox, pytest.mark.every_case]

PARTS = 12
"""Of the cases; each part is a test, so that processes share them."""
PUSHED_SEED = 8
PUSHED_RUNS = 6
PUSHED_FOUND = 2

FOUND = {
    "new columns are added although select is given": {"files": "more", "columns": "add", "select": "own"},
    "a column that only where names is no new column": {"files": "expression", "where": "op"},
    "objects without a field for a column with a DEFAULT": {
        "format": "json",
        "feature": "default",
        "bad_rows": "reject",
    },
    "objects without a field for a column": {
        "format": "json",
        "files": "fewer",
        "columns": "default",
        "bad_rows": "reject",
    },
    "fields without a header, some of them left out": {
        "format": "csv bare",
        "columns": "only",
        "bad_rows": "reject",
    },
    "the first file has a header and nothing else": {"format": "csv dialect", "objects": "file without rows"},
    "words for NULL among numbers, in a new table": {"format": "csv dialect", "kind": "new", "held": "nothing"},
    "a merge into a table with a disk of its own": {"feature": "s3 disk", "mode": "merge"},
    "a lake table has no folder to compare with": {
        "store": "iceberg",
        "mode": "append, delete missing",
        "provenance": "path and load",
    },
    "all rows of a lake table are deleted": {"store": "delta", "mode": "merge changes", "night": "all gone"},
}
"""What this array has found, with few levels; and the last, which has three levels."""


@pytest.fixture
def runner(lab: Lab) -> Runner:
    return Runner(lab=lab)


def is_quick(some: Levels) -> bool:
    """Whether levels go together, and no worker dies and no emulator of a store is started for them."""
    return goes_together(some) and some.get("retry", "none") == "none" and some.get("store", "s3") != "azure"


@pytest.mark.push
def test_many_levels_go_together(runner: Runner) -> None:
    cases, _ = cover(FACTORS, 1, is_quick, PUSHED_SEED)
    outcomes = [runner.run(Case(levels)) for levels in cases[:PUSHED_RUNS]]
    assert [str(one) for one in outcomes if one.failures or one.refused] == []


@pytest.mark.parametrize(
    "levels",
    [
        pytest.param(levels, id=name, marks=pytest.mark.push if number < PUSHED_FOUND else pytest.mark.thorough)
        for number, (name, levels) in enumerate(FOUND.items())
    ],
)
def test_what_was_found(runner: Runner, levels: dict[str, str]) -> None:
    assert runner.run(case_of(**levels)).failures == []


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(PARTS))
def test_any_two_levels_go_together(runner: Runner, part: int) -> None:
    cases, _ = cover(FACTORS, 2, goes_together, SEED)
    outcomes = [runner.run(Case(levels)) for levels in cases[part::PARTS]]
    assert [str(one) for one in outcomes if one.failures or one.refused] == []


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(PARTS // 4))
def test_what_cannot_go_together_is_refused(runner: Runner, part: int) -> None:
    outcomes = [runner.run(case) for case in refused_cases()[part :: PARTS // 4]]
    assert [str(one) for one in outcomes if one.failures or not one.refused] == []
