"""Airflow for the tests: its own home, no examples, our DAGs. Set before anything imports Airflow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

_HOME = tempfile.TemporaryDirectory(prefix="ch-s3-airflow-")

os.environ.update(
    {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parents[1] / "example_dags"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.sql anew; read the diff")


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with ``tests/golden/<name>.sql`` as a whole."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / f"{name}.sql"
        if request.config.getoption("--update-golden"):
            path.write_text(f"{text}\n")
        assert f"{text}\n" == path.read_text()

    return check
