"""Another load, in a process of which Airflow is unaware, with its own point at which it may wait."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.faults.nursery import run_task


def main(run_file: str, identity: str) -> None:
    sys.exit(run_task("execute", Path(run_file), json.loads(identity)))


if __name__ == "__main__":
    main(*sys.argv[1:])
