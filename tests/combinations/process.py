"""What a process of a series does."""

from __future__ import annotations

import logging
import os
import sys

import pytest

import tests.conftest  # noqa: F401  Airflow's configuration, before anything imports it
from ch_s3_lab.sandbox import Sandbox
from tests.combinations.factors import Case
from tests.combinations.run import Outcome, Runner
from tests.sandbox.conftest import lab_in

SEED = 7
"""Of the cases of each push."""


def run_case(description: str, case: Case) -> Outcome:
    """Run a case in this process, in a database of its own."""
    logging.disable(logging.CRITICAL)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  Airflow logs there
    with pytest.MonkeyPatch.context() as patch:
        lab = lab_in(Sandbox.from_json(description), patch)
        outcome = Runner(lab=lab).run(case)
        lab.drop_database()
        return outcome
