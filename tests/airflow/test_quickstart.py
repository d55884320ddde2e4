"""The quickstarts and the page for an Airflow of one's own, run as written."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ch_s3_lab.demo.local_airflow import LocalAirflow, make_airflow
from ch_s3_lab.sandbox.info import GIVEN_VARIABLE, Sandbox
from tests.airflow.conftest import DOCS, README, code_blocks, no_tables, with_dags

pytestmark = [pytest.mark.sandbox, pytest.mark.airflow_run]

PAGE = DOCS / "quickstart.md"
INSTALL = DOCS / "install.md"
FOLDER = "/tmp/ch-s3-quickstart"
ROWS_OF_JANUARY_2 = 943
MOST_LINES = 40
"""Of ours, in the log of `airflow dags test`."""


def run(script: str, environment: Mapping[str, str]) -> str:
    """Run commands up to the first that fails; returns their output."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def read_script(page: Path) -> str:
    """Read the commands of a page, and the files that it tells users to save, as one script."""
    block = re.compile(
        r"(?:Save this as\s`(?P<path>[^`]+)`[^`]*)?^```(?P<language>\w+)\n(?P<code>.*?)^```", re.M | re.S
    )
    steps = []
    for found in block.finditer(page.read_text()):
        if found["path"]:
            steps.append(f"cat > {found['path']} <<'END'\n{found['code']}END\n")
        elif found["language"] == "bash" and "pip install" not in found["code"]:  # tests/airflow/test_wheel.py
            steps.append(found["code"])
    return "".join(steps)


@pytest.mark.thorough  # make test has the README's
@pytest.mark.parametrize("is_given", [pytest.param(False, id="own-sandbox"), pytest.param(True, id="given-cluster")])
def test_the_page_from_nothing_to_two_loads(is_given: bool, flights_sandbox: Sandbox, tmp_path: Path) -> None:
    script = read_script(PAGE).replace(FOLDER, str(tmp_path / "quickstart"))
    assert script.count("<<'END'") == 2
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "AWS_"))}
    environment = kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if is_given:
        environment[GIVEN_VARIABLE] = flights_sandbox.to_json()
    try:
        with no_tables(flights_sandbox):
            said = run(script, environment)
    finally:
        if (directory := tmp_path / "quickstart" / "sandbox").exists():
            run(f"ch-s3 sandbox down --dir {directory}", environment)
    loads = re.findall(r"orders\.load .* append +committed +([\d,]+) +([\d,]+) ", said)
    assert loads == [("3", "3,000"), ("3", "3,000"), ("1", "1,000")]  # listed after each run
    assert ("stops nothing" in said) is is_given
    assert not (tmp_path / "quickstart").exists()


@pytest.fixture
def described() -> Sandbox:
    """A sandbox that does not exist: only its connections are used."""
    ports = {"http_ports": (8123,), "tcp_ports": (), "s3_endpoint": "http://s3"}
    return Sandbox(**ports, password="p", s3_access_key="k", s3_secret_key="s")


def test_the_connections_of_the_page_are_like_those_that_the_sandbox_prints(described: Sandbox) -> None:
    clickhouse, aws = map(json.loads, code_blocks(PAGE, "json"))
    assert describe(clickhouse) == describe(json.loads(described.airflow_conn_clickhouse) | {"extra": {}})
    printed = json.loads(described.airflow_conn_aws)
    del printed["extra"]["service_config"]  # only Airflow's own test of the connection needs it
    assert describe(aws) == describe(printed)


def describe(connection: Mapping[str, Any]) -> tuple[str, set[str], set[str]]:
    extra = connection.get("extra", {})
    return connection["conn_type"], set(connection) - {"extra"}, set(extra)


@pytest.mark.push
def test_the_readme(examples: LocalAirflow, flights_sandbox: Sandbox, tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dag,) = code_blocks(README, "python")
    (dags / "flights.py").write_text(dag)
    _, _, connect, load = code_blocks(README, "bash")  # the others: test_wheel.py, and tests/unit/test_documents.py
    given = with_dags(examples, dags).environment
    # the README adds the connections to Airflow's database
    environment = {name: value for name, value in given.items() if not name.startswith("AIRFLOW_CONN_")}
    with no_tables(flights_sandbox):
        said = run(with_real_values(connect, flights_sandbox) + load, environment)
        rows = flights_sandbox.query("SELECT toUInt32(count()) AS n FROM flights")[0]["n"]
    assert rows == ROWS_OF_JANUARY_2
    assert re.search(rf"flights\.load .* append +committed +1 +{ROWS_OF_JANUARY_2} ", said)
    ours = [line for line in said.splitlines() if "airflow_provider_ch_s3" in line]
    assert 5 < len(ours) <= MOST_LINES, said
    assert "[ch-s3 {" not in said
    assert not [line for line in ours if "::group::" in line]


@pytest.mark.thorough
def test_the_page_for_an_airflow_of_ones_own(flights_sandbox: Sandbox, tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dag,) = code_blocks(INSTALL, "python")
    (dags / "flights.py").write_text(dag)
    # the others: tests/unit/test_pins.py and test_wheel.py
    _, connect, grants, doctor, load, _ = code_blocks(INSTALL, "bash")
    (create,) = code_blocks(INSTALL, "sql")
    for statement in create.strip().removesuffix(";").split(";"):
        flights_sandbox.query(f"EXPLAIN AST {statement}")  # the engine creates no users
    given = make_airflow(tmp_path / "airflow", dags, flights_sandbox).environment
    environment = {name: value for name, value in given.items() if not name.startswith("AIRFLOW_CONN_")}
    before = f"cd {tmp_path}\nclickhouse-client() {{ cat grants.sql; }}\n"
    script = before + with_real_values(connect, flights_sandbox) + grants + doctor + load
    with no_tables(flights_sandbox):
        said = run(script, environment)
    assert "GRANT" in said
    assert "✔ reading: " in said
    assert re.search(rf"flights\.load .* append +committed +1 +{ROWS_OF_JANUARY_2} ", said)


def with_real_values(script: str, sandbox: Sandbox) -> str:
    """Replace each field of a script's connections with the sandbox's value."""
    real = {}
    for connection in map(json.loads, (sandbox.airflow_conn_clickhouse, sandbox.airflow_conn_aws)):
        real[connection["conn_type"]] = connection

    def fill(match: re.Match[str]) -> str:
        example = json.loads(match[1])
        its = real[example["conn_type"]]
        filled = {name: its[name] for name in example}
        if "extra" in example:
            filled["extra"] = {name: its["extra"][name] for name in example["extra"]}
        return shlex.quote(json.dumps(filled))

    filled, count = re.subn(r"'(\{.*?\})'", fill, script, flags=re.DOTALL)
    assert count == len(real)
    return filled
