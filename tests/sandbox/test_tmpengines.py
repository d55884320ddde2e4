from __future__ import annotations

import pytest

import tests.sandbox.test_lake_functions as m
from tests.lake_features import CASES as OLD
from tests.lake_shapes import CASES

m.CASES = tuple(c for c in CASES if c not in OLD and c.feature)
pytestmark = [pytest.mark.sandbox]


class TestE:
    verdicts = m.TestEngines.verdicts

    def test_it(self, verdicts):
        version, wrong = verdicts
        for case, faults in wrong.items():
            print(version, "WRONG" if faults else "right", case, "/", case.feature)
            for f in faults[:2]:
                print("      ", f[:700])
