"""The wheel, in an environment with the dependencies but without the working tree."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from airflow_provider_ch_s3.get_provider_info import CLICKHOUSE_DOCS
from tests.airflow.conftest import README, ROOT, code_blocks, run_in_one_process

pytestmark = pytest.mark.airflow_run


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(target), "."], cwd=ROOT, check=True)
    (built,) = target.glob("*.whl")
    return built


def test_wheel_holds_templates_and_nothing_of_the_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    templates = {path.relative_to(ROOT).as_posix() for path in (ROOT / "airflow_provider_ch_s3").rglob("*.jinja")}
    assert {template.split("/")[1] for template in templates} == {"bench", "sandbox", "sql"}
    assert templates <= names
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "airflow_provider_ch_s3").rglob("static/*")}
    assert "airflow_provider_ch_s3/plugins/static/load_report.js" in pages
    assert pages <= names
    assert "airflow_provider_ch_s3/py.typed" in names
    assert "airflow_provider_ch_s3/example_dags/bulk_load_flights.py" in names
    docs = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert {name for name in names if name.startswith("airflow_provider_ch_s3/docs/")} == {
        f"airflow_provider_ch_s3/docs/{name}" for name in {*docs, "__init__.py"}
    }
    assert not [name for name in names if name.startswith("tests")]


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


@pytest.mark.thorough
def test_airflow_finds_what_the_readme_installs(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    # This environment's dependencies come after the installed package: installing Airflow again would take minutes.
    site = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    pip, *install = shlex.split(code_blocks(README, "bash")[0])
    assert (pip, install) == ("pip", ["install", "."])
    command = [sys.executable, "-m", "pip", "--python", python, *install, "--quiet", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation"], cwd=ROOT, check=True)
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
