"""Which command runs a test, and marks for cases of a test that only ``make test-all`` runs."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

USUAL_SEEDS = 8
RANKS: pytest.StashKey[dict[str, int]] = pytest.StashKey()
"""Test on servers, also one that does not run now → 0: ``make test``, 1: ``make test-push``, 2: ``make test-all``."""


def thorough(*values: object, id: str | None = None) -> ParameterSet:
    """Mark a case that is similar to others of its test, which represent it."""
    return pytest.param(*values, id=id, marks=pytest.mark.thorough)


def seeds(count: int) -> pytest.MarkDecorator:
    """Run a test with so many seeds; the first ones represent the others."""
    return pytest.mark.parametrize("seed", [*range(USUAL_SEEDS), *map(thorough, range(USUAL_SEEDS, count))])
