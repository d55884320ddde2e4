"""Every command in the documents is run; those of the quickstarts by test_quickstart.py."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ch_s3.sandbox.info import Sandbox
from airflow_provider_ch_s3.sandbox.local_airflow import LocalAirflow
from airflow_provider_ch_s3.sandbox.zookeeper import DEBIAN_JAR
from tests.airflow.conftest import DOCS, code_blocks, no_tables

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name != "quickstart.md"]
TUNE = "ch-s3 tune --source 's3://flights/dt=2013-*/*.parquet' --table flights\n"
"""Run by tests/sandbox/test_tune_command.py."""


@pytest.fixture(scope="module")
def flights_table(examples: LocalAirflow, flights_sandbox: Sandbox) -> Iterator[None]:
    """Tables as the example DAGs create them, with a day of flights in them."""
    with no_tables(flights_sandbox):
        conf = '{"source": "s3://flights/dt=2013-01-01/*.parquet"}'
        examples.run("dags", "test", "bulk_load_flights", "2013-12-31", "--conf", conf)
        yield


@pytest.mark.usefixtures("flights_table")
def test_commands_run(examples: LocalAirflow, tmp_path: Path) -> None:
    blocks = [block for page in PAGES for block in code_blocks(page, "bash") if block != TUNE]
    assert len(blocks) == 4, "there is a new block: make sure that it is run here"
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
