"""What makes a node count other cores than the machine has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.cores import pretend_cores
from tests.failures import coded

COUNT = "import os; print(os.sysconf('SC_NPROCESSORS_ONLN'), len(open('/proc/cpuinfo').read()) > 0)"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CH_S3_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_the_machines_cores_need_nothing() -> None:
    assert pretend_cores(None) == {}


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc), which makes a node count other cores")
def test_a_process_counts_the_cores(empty_cache: Path) -> None:
    environment = pretend_cores(64)
    built = Path(environment["LD_PRELOAD"])
    assert built.parent == empty_cache
    command = [sys.executable, "-c", COUNT]
    counted = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    # Python opens files without fopen
    assert counted.stdout.split() == ["64", "True"]
    made = built.stat().st_mtime_ns
    assert (pretend_cores(8)["CH_S3_CORES"], built.stat().st_mtime_ns) == ("8", made)


def test_without_a_compiler_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxError, match=coded("sandbox-not-started", "(cc)", "cores")):
        pretend_cores(64)
