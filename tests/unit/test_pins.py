"""The lower bounds of what the provider requires, compared with the oldest Airflow that is supported."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]

COMES_WITH_AIRFLOW = {"argcomplete", "attrs", "jinja2", "opentelemetry-api", "requests", "rich"}
"""Airflow chooses these, and never as old as the lower bound."""


def lower_bounds() -> dict[str, Version]:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    lines = settings["options"]["install_requires"].split("\n")
    required = [Requirement(line) for line in lines if line and not line.startswith("#")]
    (bounds,) = zip(*(one.specifier for one in required), strict=True)
    assert {bound.operator for bound in bounds} == {">="}
    return {one.name: Version(bound.version) for one, bound in zip(required, bounds, strict=True)}


def locked() -> dict[str, Version]:
    text = (ROOT / "requirements-lowest.lock").read_text()
    found = re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in found}


def test_each_lower_bound_is_what_the_oldest_airflow_is_tested_with() -> None:
    """A bound above the constraints of the oldest Airflow would keep the package out of that Airflow."""
    bounds, tested = lower_bounds(), locked()
    assert bounds.keys() > COMES_WITH_AIRFLOW
    for name, bound in bounds.items():
        if name in COMES_WITH_AIRFLOW:
            assert bound <= tested[name], name
        else:
            assert bound == tested[name], name
