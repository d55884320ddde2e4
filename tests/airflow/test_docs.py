"""Every command and DAG of the documents is run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ch_s3.sandbox.info import Sandbox
from airflow_provider_ch_s3.sandbox.local_airflow import LocalAirflow, make_airflow
from airflow_provider_ch_s3.sandbox.zookeeper import DEBIAN_JAR
from tests.airflow.conftest import ROOT, no_tables

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# These run in tests of their own, or run the tests.
ELSEWHERE = {
    "pip install airflow-provider-ch-s3": "tests/airflow/test_wheel.py",
    "ch-s3 tune --source 's3://flights/dt=2013-*/*.parquet' --table flights": "tests/sandbox/test_tune_command.py",
    "make demo": "test_demo.py runs its command",
    "make test": "runs this test",
    "make test-unit": "a part of make test",
}


def code_blocks(language: str) -> list[str]:
    return [
        block
        for document in DOCUMENTS
        for block in re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    ]


@pytest.fixture(scope="module")
def flights_table(examples: LocalAirflow, flights_sandbox: Sandbox) -> Iterator[None]:
    """Tables as the example DAGs make them, with a day of flights in them."""
    with no_tables(flights_sandbox):
        conf = '{"source": "s3://flights/dt=2013-01-01/*.parquet"}'
        examples.run("dags", "test", "bulk_load_flights", "2013-12-31", "--conf", conf)
        yield


@pytest.mark.usefixtures("flights_table")
def test_console_blocks_run(examples: LocalAirflow, tmp_path: Path) -> None:
    blocks = [block for block in code_blocks("console") if not set(block.strip().splitlines()) <= ELSEWHERE.keys()]
    assert len(blocks) == 4, "a block is new: see that it runs here"
    for block in blocks:
        if "--replicas" in block and not DEBIAN_JAR.exists():
            continue
        script = block.replace("/tmp/ch-s3-", f"{tmp_path}/")
        done = subprocess.run(
            ["bash", "-euc", script],
            env=dict(examples.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if "ch-s3 plan" in block:
            assert "max_insert_threads = " in done.stdout
            assert "INSERT INTO `sandbox`.`flights`" in done.stdout
            assert "'***', '***'" in done.stdout
        if "ch-s3 loads" in block:
            assert re.search(r"bulk_load_flights\.load .* append +committed +1 +842 ", done.stdout)


@pytest.mark.usefixtures("flights_table")
def test_python_blocks_are_dags_that_run(flights_sandbox: Sandbox, tmp_path: Path) -> None:
    (block,) = code_blocks("python")
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "readme.py").write_text(block)
    airflow = make_airflow(tmp_path / "home", dags, flights_sandbox)
    before = flights_sandbox.query("SELECT toUInt32(count()) AS n FROM flights")[0]["n"]
    airflow.run("dags", "test", "flights", "2013-01-03T02:00:00")
    after = flights_sandbox.query("SELECT toUInt32(count()) AS n FROM flights")[0]["n"]
    assert after - before == 943


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"
