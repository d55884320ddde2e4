"""The fixtures are there for a project that asks for them, and for no other project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = ("ch_s3_sandbox", "ch_s3_database", "ch_s3_bucket", "ch_s3_query", "ch_s3_client")


@pytest.mark.parametrize(
    ("conftest", "is_asked"),
    [
        pytest.param('pytest_plugins = ["ch_s3_lab.pytest"]\n', True, id="asked"),
        pytest.param("", False, id="not-asked"),
    ],
)
def test_the_fixtures_have_to_be_asked_for(conftest: str, is_asked: bool, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    done = {
        option: subprocess.run([*command, option], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for option in ("--fixtures", "--help")
    }
    assert [f"{name} " in done["--fixtures"] for name in FIXTURES] == [is_asked] * len(FIXTURES)
    assert ("--ch-s3-shards" in done["--help"]) is is_asked
