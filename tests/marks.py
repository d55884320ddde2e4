"""Which cases of a test ``make test`` leaves to ``make test-all``."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def thorough(*values: object, id: str | None = None) -> ParameterSet:
    """A case that is much like others of its test, which stand for it."""
    return pytest.param(*values, id=id, marks=pytest.mark.thorough)
