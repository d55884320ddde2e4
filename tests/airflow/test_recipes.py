"""docs/recipes.md: every DAG can be imported, every command parsed, every query run, and the example test passes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_ch_s3.cli import build_parser
from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from ch_s3_lab.demo.local_airflow import LocalAirflow
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE, Sandbox
from tests.airflow.conftest import DOCS, code_blocks
from tests.airflow.test_docs import example_tables, execute

pytestmark = pytest.mark.airflow_run

PAGE = DOCS / "recipes.md"
NIGHTLY = "## Load yesterday's folder each night"
IN_CI = "## Test a DAG in CI without AWS"
"""The recipe whose code is a whole test, and not a DAG."""


def recipe(heading: str) -> list[str]:
    """The Python code of a recipe."""
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found, heading
    return re.findall(r"^```python\n(.*?)^```", found[1], re.DOTALL | re.MULTILINE)


DAGS = [block for block in code_blocks(PAGE, "python") if block not in recipe(IN_CI)]


def test_the_page_answers_the_questions_of_a_week() -> None:
    _, *recipes = PAGE.read_text().split("\n## ")
    assert len(recipes) >= 25
    assert [text.partition("\n")[0] for text in recipes if "\n```" not in text] == []


@pytest.mark.parametrize("code", DAGS)
def test_a_recipe_can_be_imported(code: str) -> None:
    """Arguments without templates are checked by then."""
    names: dict[str, Any] = {}
    exec(code, names)
    assert any(name.endswith("Operator") for name in names)


def test_a_wrong_argument_of_a_recipe_is_found() -> None:
    with pytest.raises(ChS3Error):
        test_a_recipe_can_be_imported(DAGS[0].replace("min_age=60", "min_age='soon'"))


@pytest.mark.parametrize("command", [line for block in code_blocks(PAGE, "bash") for line in block.splitlines()])
def test_a_command_is_one_of_the_program(command: str) -> None:
    program, *arguments = shlex.split(command)
    {"ch-s3": build_parser, "airflow": get_parser}[program]().parse_args(arguments)


@pytest.mark.thorough
@pytest.mark.sandbox
@pytest.mark.push
def test_the_example_test_passes(flights_sandbox: Sandbox, examples: LocalAirflow, tmp_path: Path) -> None:
    (dag,), (conftest, test) = recipe(NIGHTLY), recipe(IN_CI)
    (tmp_path / "dags").mkdir()
    for name, text in {"dags/sales.py": dag, "conftest.py": conftest, "test_sales.py": test}.items():
        (tmp_path / name).write_text(text)
    environment = {**examples.environment, GIVEN_VARIABLE: flights_sandbox.to_json()}
    environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(tmp_path / "dags")
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert " 1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.sandbox
@pytest.mark.push
def test_the_queries_run(flights_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    loads, late = code_blocks(PAGE, "sql")
    with example_tables(flights_sandbox, monkeypatch):
        source = "s3://flights/dt=2013-01-01/*.parquet"
        execute(S3ToClickHouseOperator(task_id="load", source=source, table="flights"), "recipes")
        assert flights_sandbox.query(loads)[0]["rows"] == 842
        assert flights_sandbox.query(late) == []
        for_all = late.replace("INTERVAL 26 HOUR", "INTERVAL -1 HOUR")
        assert any("flights" in row["target"] for row in flights_sandbox.query(for_all))
