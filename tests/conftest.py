"""Airflow for the tests: its own home, no examples, our DAGs. Set before anything imports Airflow."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_HOME = tempfile.TemporaryDirectory(prefix="ch-s3-airflow-")

os.environ.update(
    {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parents[1] / "example_dags"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
)
