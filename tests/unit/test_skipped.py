"""``make test-matrix`` fails where something is missing that it needs; other runs skip the tests in question."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("options", "expected"), [((), "1 passed, 1 skipped"), (("--no-skips",), "1 failed, 1 passed")]
)
def test_what_is_missing_is_an_error_only_if_nothing_may_be_skipped(
    tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n\ndef test_a():\n    pytest.skip('no ZooKeeper')\n\n\ndef test_b():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "--rootdir", str(tmp_path), *options, "-rsf"]
    ran = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert expected in ran.stdout, ran.stdout
    assert "no ZooKeeper" in ran.stdout
