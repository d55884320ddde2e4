"""Covering arrays: few cases in which any levels of two or three factors, if they can go together, do so once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

Levels = dict[str, str]
Tuple = frozenset[tuple[str, str]]
Factors = Mapping[str, Iterable[str]]

TRIES = 100
"""How often a case is begun with the same levels before these count as impossible."""


def all_tuples(factors: Factors, ways: int) -> Iterator[Tuple]:
    """List the levels of so many factors, in each combination."""
    for names in combinations(factors, ways):
        for levels in product(*(factors[name] for name in names)):
            yield frozenset(zip(names, levels, strict=True))


def cover(
    factors: Factors, ways: int, is_possible: Callable[[Levels], bool], seed: int
) -> tuple[list[Levels], list[Tuple]]:
    """Draw cases, each with the levels of most pairs (triples) that no earlier case has.

    :param is_possible: whether levels of some factors may be in a case.
    :returns: the cases; and the pairs that no case can have because of further factors.
    """
    chance = random.Random(seed)
    left = {one: None for one in all_tuples(factors, ways) if is_possible(dict(one))}
    cases, impossible = [], []
    while left:
        first = next(iter(left))
        found = next(
            (case for _ in range(TRIES) if (case := _fill(factors, ways, dict(first), left, is_possible, chance))),
            None,
        )
        if found is None:
            impossible.append(first)
            del left[first]
            continue
        for one in combinations(found.items(), ways):
            left.pop(frozenset(one), None)
        cases.append(found)
    return cases, impossible


def _fill(
    factors: Factors,
    ways: int,
    case: Levels,
    left: Mapping[Tuple, None],
    is_possible: Callable[[Levels], bool],
    chance: random.Random,
) -> Levels | None:
    """Choose levels of the other factors, in random order; None if a factor has none that is possible."""
    names = [name for name in factors if name not in case]
    chance.shuffle(names)
    for name in names:
        fixed = list(combinations(case.items(), ways - 1))
        levels: Sequence[str] = [level for level in factors[name] if is_possible({**case, name: level})]
        if not levels:
            return None
        worth = {level: sum(frozenset((*one, (name, level))) in left for one in fixed) for level in levels}
        best = max(worth.values())
        case[name] = chance.choice([level for level in levels if worth[level] == best])
    return {name: case[name] for name in factors}
