"""Airflow's configuration for the tests, set before anything imports it: its own home, no examples, our example DAGs.

Also groups the tests that pytest-xdist has to run in one process, and marks the tests of `make test-push` and of
`make test-all`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import botocore.session
import pytest

from airflow_provider_ch_s3 import discretion
from tests.marks import RANKS

pytest_plugins = ["ch_s3_lab.pytest"]

if multiprocessing.parent_process() is None:  # processes of multiprocessing inherit the home, and may be killed
    _HOME = tempfile.TemporaryDirectory(prefix="ch-s3-airflow-")
    os.environ["AIRFLOW_HOME"] = _HOME.name
os.environ.update(
    {
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parents[1] / "example_dags"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
)
# Each session would parse the description of S3 again: half of the time of most tests of stores.
botocore.session.create_loader = cache(botocore.session.create_loader)
# The processes of pytest-xdist inherit it.
os.environ.setdefault("CH_S3_FAULTS_SEED", str(random.randrange(1_000_000)))


# Fixtures that take long to set up: their tests stay in one process, so that one such fixture is there at a time. Two
# clusters, or a cluster and Airflow, leave two cores no time. Their tests begin in this order, the longest
# ones first: otherwise one process would be busy with them at the end, and the others idle.
SHARED = (
    "replicated_sandbox",
    "azurite",
    "airflow_api",
    "examples",
    "forking",
    "fragile_sandbox",
    "push_node",
    "wheel",
)


PUSHED = 5
"""So many tests of a module on real servers, the first ones, run with each push."""


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-xdist and -m evaluate the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> Generator[None]:
    """Group tests by the fixture that they share; mark tests on real servers that others represent.

    The first case represents a test, and the first ``PUSHED`` tests represent a module: all others are thorough. The
    first of these tests is for everybody: the others are for a push, and so is what shares a fixture that takes long
    to set up, so that the fixture is set up once.
    """
    stood_for: set[tuple[pytest.Collector | None, str]] = set()
    tests: dict[Path, list[tuple[pytest.Collector | None, str]]] = {}
    opened: set[Path] = set()
    for item in items:
        if shared := _shared(item):
            item.add_marker(pytest.mark.xdist_group("shared"))
        if not item.get_closest_marker("sandbox"):
            continue
        test, is_for_push = (item.parent, item.originalname), item.get_closest_marker("push") is not None
        if test in stood_for and not item.get_closest_marker("every_case"):
            item.add_marker(pytest.mark.thorough)
        stood_for.add(test)
        if item.get_closest_marker("thorough"):
            continue
        of_module = tests.setdefault(item.path, [])
        if not is_for_push and test not in of_module:
            of_module.append(test)
        if not is_for_push and of_module.index(test) >= PUSHED:
            item.add_marker(pytest.mark.thorough)
        elif item.path in opened or shared:
            item.add_marker(pytest.mark.push)
        elif not is_for_push:
            opened.add(item.path)
    config.stash[RANKS] = {item.nodeid: _rank(item) for item in items if item.get_closest_marker("sandbox")}
    yield
    items.sort(key=_place)


def _rank(item: pytest.Function) -> int:
    if item.get_closest_marker("thorough"):
        return 2
    return 1 if item.get_closest_marker("push") else 0


def _shared(item: pytest.Function) -> tuple[str, str] | None:
    """Return the fixture that a test shares with others, and its parameter: a cluster, of those with replicas."""
    name = next((name for name in SHARED if name in item.fixturenames), None)
    if name is None:
        return None
    callspec = getattr(item, "callspec", None)
    return name, str(callspec.params.get(name, "")) if callspec else ""


def _place(item: pytest.Function) -> tuple[int, str]:
    """Order the groups: each fixture, and each cluster, is started once."""
    name, parameter = _shared(item) or ("", "")
    return (SHARED.index(name) if name else len(SHARED)), parameter


@pytest.hookimpl(trylast=True)  # after what depends on the fixture
def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Function | None) -> None:
    """Stop a cluster after its last test: four idle servers and their ZooKeeper take a sixth of a core.

    pytest itself keeps what belongs to the session until the end, and has no public way to end it earlier.
    """
    shared = _shared(item)
    if shared and nextitem and _shared(nextitem) != shared:
        for definition in item._fixtureinfo.name2fixturedefs[shared[0]]:
            definition.finish(item._request)  # type: ignore[arg-type]


def pytest_unconfigure() -> None:
    """Remove Airflow's home: a process of pytest-xdist ends without doing so."""
    _HOME.cleanup()


def pytest_report_header() -> str:
    """Print what is chosen at random, so that it can be repeated."""
    return f"random faults: CH_S3_FAULTS_SEED={os.environ['CH_S3_FAULTS_SEED']}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden`` and ``--no-skips``."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite tests/golden/*.sql and the pages of docs/reference; review the diff",
    )
    parser.addoption(
        "--no-skips", action="store_true", help="fail tests that would be skipped because something is missing"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With ``--no-skips``, fail what is skipped, for the same reason."""
    report = yield
    if report.skipped and item.config.getoption("--no-skips"):
        report.outcome, report.longrepr = "failed", report.longreprtext
    return report


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """A function that compares a text with the whole of ``tests/golden/<name>.sql``."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / f"{name}.sql"
        if request.config.getoption("--update-golden"):
            path.write_text(f"{text}\n")
        assert f"{text}\n" == path.read_text()

    return check


@pytest.fixture(autouse=True)
def forget_secrets() -> Iterator[None]:
    """Secrets of one test may be ordinary words of another."""
    yield
    discretion._kept.clear()
