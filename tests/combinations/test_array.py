"""Any two levels go together in a case, or are refused in one, or mean nothing together."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.combinations.array import Levels, all_tuples, cover
from tests.combinations.factors import FACTORS, Case
from tests.combinations.process import SEED
from tests.combinations.together import APART, FOLLOWING, apart_of, goes_together, is_meant, refused_cases

LETTERS = {"a": "pqr", "b": "st", "c": "uv", "d": "wx"}


def is_possible(some: Levels) -> bool:
    return not (some.get("a") == "p" and some.get("b") == "s")


@pytest.mark.parametrize(("ways", "most"), [(2, 9), (3, 18)])
def test_an_array_has_each_possible_tuple(ways: int, most: int) -> None:
    cases, impossible = cover(LETTERS, ways, is_possible, 1)
    covered = {frozenset(one) for case in cases for one in combinations(case.items(), ways)}
    wanted = {one for one in all_tuples(LETTERS, ways) if is_possible(dict(one))}
    assert covered == wanted
    assert impossible == []
    assert len(cases) <= most


def test_a_pair_without_a_level_of_a_third_factor_is_told() -> None:
    def without_c(some: Levels) -> bool:
        return not ({"a", "b", "c"} <= some.keys() and some["a"] == "p" and some["b"] == "s")

    _, impossible = cover(LETTERS, 2, without_c, 1)
    assert impossible == [frozenset({("a", "p"), ("b", "s")})]


@pytest.mark.thorough
def test_any_two_levels_are_in_a_run() -> None:
    cases, impossible = cover(FACTORS, 2, goes_together, SEED)
    covered = {frozenset(one) for case in cases for one in combinations(case.items(), 2)}
    of_refused = {frozenset(one) for case in refused_cases() for one in combinations(case.levels.items(), 2)}
    left = set(all_tuples(FACTORS, 2)) - covered - of_refused
    assert {one for one in left if is_meant(dict(one))} <= set(impossible)
    following = [
        product(*([(name, level) for level in of] for name, of in levels.items())) for levels, _ in FOLLOWING
    ]
    assert set(impossible) == {frozenset(pair) for pairs in following for pair in pairs}
    assert all(apart_of(Case(case)) is None for case in cases)


def test_each_refusal_is_in_a_run_for_its_own_reason() -> None:
    runs = refused_cases()
    assert [one for one in APART if not any(apart_of(case) is one for case in runs)] == []
