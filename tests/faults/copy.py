"""A second copy of a running task: the same try of the same load, in a process of which Airflow is unaware."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.failures import own_errors
from tests.faults.airflow_parts import RETRIES, TASK_ID
from tests.faults.faulty_task import make_operator
from tests.faults.nursery import make_context


def main(run_file: str, identity: str) -> None:
    spec = json.loads(Path(run_file).read_text())
    # it has no triggerer, so it waits in its process
    operator = make_operator(spec, task_id=TASK_ID, retries=RETRIES, deferrable=False)
    with own_errors():
        operator.execute(make_context(operator, json.loads(identity)))


if __name__ == "__main__":
    main(*sys.argv[1:])
