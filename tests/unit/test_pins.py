"""The lower bounds of what the provider requires, compared with the oldest Airflow that is supported."""

from __future__ import annotations

import configparser
import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]

COMES_WITH_AIRFLOW = {"argcomplete", "attrs", "jinja2", "opentelemetry-api", "requests", "rich"}
"""Airflow chooses these, and never as old as the lower bound."""

CONSTRAINTS = {
    "3.1.8": {
        "apache-airflow-providers-amazon": "9.22.0",
        "apache-airflow-providers-common-compat": "1.14.0",
        "apache-airflow-providers-microsoft-azure": "13.0.0",
    },
    "3.2.1": {
        "apache-airflow-providers-amazon": "9.25.0",
        "apache-airflow-providers-common-compat": "1.14.3",
        "apache-airflow-providers-microsoft-azure": "13.1.1",
        "apache-airflow-providers-openlineage": "2.16.0",
        "pyiceberg": "0.11.1",
    },
    "3.3.1": {
        "apache-airflow-providers-amazon": "9.34.0",
        "apache-airflow-providers-clickhousedb": "1.0.0",
        "apache-airflow-providers-common-compat": "1.18.0",
        "apache-airflow-providers-microsoft-azure": "14.1.0",
        "apache-airflow-providers-openlineage": "2.20.0",
        "clickhouse-connect": "1.6.0",
        "pyiceberg": "0.11.1",
    },
}
"""Of what the package requires: as published with 3.2.1 and 3.3.1; for 3.1.8 the newest versions on that day."""


def read_requirements(section: str, key: str) -> list[Requirement]:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    return [Requirement(line) for line in settings[section][key].split("\n") if line and not line.startswith("#")]


def lower_bounds() -> dict[str, Version]:
    required = read_requirements("options", "install_requires")
    (bounds,) = zip(*(one.specifier for one in required), strict=True)
    assert {bound.operator for bound in bounds} == {">="}
    return {one.name: Version(bound.version) for one, bound in zip(required, bounds, strict=True)}


def locked() -> dict[str, Version]:
    text = (ROOT / "requirements-lowest.lock").read_text()
    found = re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in found}


def install_commands() -> str:
    """The first commands of the page."""
    page = (ROOT / "docs" / "install.md").read_text()
    return re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]


def test_each_lower_bound_is_what_the_oldest_airflow_is_tested_with() -> None:
    """A bound above the constraints of the oldest Airflow would keep the package out of that Airflow."""
    bounds, tested = lower_bounds(), locked()
    assert bounds.keys() > COMES_WITH_AIRFLOW
    for name, bound in bounds.items():
        if name in COMES_WITH_AIRFLOW:
            assert bound <= tested[name], name
        else:
            assert bound == tested[name], name


@pytest.mark.parametrize("airflow", CONSTRAINTS)
def test_the_page_installs_with_the_constraints_of_an_airflow(airflow: str, tmp_path: Path) -> None:
    (tmp_path / "published").write_text("".join(f"{name}=={v}\n" for name, v in CONSTRAINTS[airflow].items()))
    stubs = f"""
airflow() {{ echo {airflow}; }}
python() {{ echo 3.12; }}
curl() {{ echo "$2" > address; cp published "$4"; }}
pip() {{ echo "$*" >> pip; }}
"""
    subprocess.run(["bash", "-c", stubs + install_commands()], cwd=tmp_path, check=True)
    assert (tmp_path / "address").read_text().endswith(f"/constraints-{airflow}/constraints-3.12.txt\n")
    assert (tmp_path / "pip").read_text() == (
        f"install . apache-airflow=={airflow} --constraint constraints.txt\ncheck\n"
    )
    constraints = dict(line.split("==") for line in (tmp_path / "constraints.txt").read_text().splitlines())
    extras = ("azure", "iceberg", "openlineage")
    required = read_requirements("options", "install_requires") + [
        one for extra in extras for one in read_requirements("options.extras_require", extra)
    ]
    refused = [str(one) for one in required if one.name in constraints and constraints[one.name] not in one.specifier]
    assert refused == []


def test_the_page_installs_nothing_without_constraints(tmp_path: Path) -> None:
    stubs = """
airflow() { echo 3.3.2+vendor; }
python() { echo 3.12; }
curl() { return 22; }
pip() { echo "$*" >> pip; }
"""
    done = subprocess.run(["bash", "-c", stubs + install_commands()], cwd=tmp_path, check=False)
    assert done.returncode != 0
    assert not (tmp_path / "pip").exists()
