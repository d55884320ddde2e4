"""Airflow for the tests: its own home, no examples, our DAGs. Set before anything imports Airflow.

And which tests run one after the other in one of pytest-xdist's processes.
"""

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


# Fixtures that take long to set up: what shares one stays together.
SHARED = ("airflow_api", "examples", "forking", "fragile_sandbox", "push_node", "wheel")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests by the fixture that they share."""
    for item in items:
        for name in SHARED:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))
                break


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
