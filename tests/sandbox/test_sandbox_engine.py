"""Downloading the engine: a fake npm serves a small tarball, so that no test downloads 178 MB.

npm itself is not tested here; that the real package is the pinned one is shown by all other tests of the
sandbox, which use it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox import engine, registries
from ch_s3_lab.sandbox.engine import EnginePackage, ensure_library
from tests.failures import coded

# Records each call, then behaves like `npm pack`: writes the tarball to the working directory.
FAKE_NPM = """#!/bin/sh
echo "$@" >> "{calls}"
sleep {seconds}
[ -f "{tarball}" ] || {{ echo "npm error code E404" >&2; echo "GET https://me:pw@registry/x" >&2; exit 7; }}
cp "{tarball}" engine-1.0.0.tgz
"""


class FakeRegistry:
    """A tarball, an npm on the PATH that serves it, and an empty cache."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = directory / "calls"
        self.tarball = directory / "tarball.tgz"
        self.cache = directory / "cache"
        self._npm = directory / "bin" / "npm"
        self._npm.parent.mkdir()
        monkeypatch.setenv("PATH", f"{self._npm.parent}:{os.environ['PATH']}")
        monkeypatch.setenv("CH_S3_CACHE_DIR", str(self.cache))

    def serve(self, content: bytes, *, member: str = "package/libchdb.so", seconds: float = 0) -> EnginePackage:
        """Serve a tarball with one file, and return the package that matches it."""
        with tarfile.open(self.tarball, "w:gz") as archive:
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        self._install(seconds)
        digest = base64.b64encode(hashlib.sha512(self.tarball.read_bytes()).digest()).decode()
        return EnginePackage(name="@fake/engine", version="1.0.0", integrity=f"sha512-{digest}")

    def serve_nothing(self) -> EnginePackage:
        self._install(0)
        return EnginePackage(name="@fake/engine", version="1.0.0", integrity="sha512-")

    def _install(self, seconds: float) -> None:
        self._npm.write_text(FAKE_NPM.format(calls=self.calls, tarball=self.tarball, seconds=seconds))
        self._npm.chmod(0o755)

    def kept(self) -> list[str]:
        """List the files in the cache, except the empty lock."""
        files = (path for path in self.cache.rglob("*") if path.is_file() and path.name != "lock")
        return sorted(str(path.relative_to(self.cache)) for path in files)


def code_of(package: EnginePackage) -> str:
    """Return Python code that creates an equal package."""
    return f"EnginePackage(name={package.name!r}, version={package.version!r}, integrity={package.integrity!r})"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    return FakeRegistry(tmp_path, monkeypatch)


def test_downloads_once_and_keeps_the_library_only(registry: FakeRegistry) -> None:
    package = registry.serve(b"engine")
    first = ensure_library(package)
    assert first == registry.cache / "engine" / "1.0.0" / "libchdb.so"
    assert first.read_bytes() == b"engine"
    assert ensure_library(package) == first
    assert registry.kept() == ["engine/1.0.0/libchdb.so"]
    (call,) = registry.calls.read_text().splitlines()
    assert call.startswith("pack @fake/engine@1.0.0 ")


def test_two_downloads_at_once_are_one(registry: FakeRegistry) -> None:
    package = registry.serve(b"engine" * 100_000, seconds=1)
    script = (
        "from ch_s3_lab.sandbox.engine import EnginePackage, ensure_library\n"
        f"print(ensure_library({code_of(package)}).stat().st_size)\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in both] == ["600000\n", "600000\n"]
    assert len(registry.calls.read_text().splitlines()) == 1
    assert registry.kept() == ["engine/1.0.0/libchdb.so"]


def test_a_killed_download_is_repaired(registry: FakeRegistry) -> None:
    package = registry.serve(b"engine", seconds=60)
    script = (
        f"from ch_s3_lab.sandbox.engine import EnginePackage, ensure_library\nensure_library({code_of(package)})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    while not registry.calls.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, 9)
    process.wait()
    (registry.cache / "engine" / "1.0.0" / "download" / "half.tgz").write_bytes(b"half")
    assert ensure_library(registry.serve(b"engine")).read_bytes() == b"engine"
    assert registry.kept() == ["engine/1.0.0/libchdb.so"]


def test_another_checksum_is_refused(registry: FakeRegistry) -> None:
    registry.serve(b"engine")
    package = EnginePackage(name="@fake/engine", version="1.0.0", integrity="sha512-AAAA")
    with pytest.raises(SandboxError, match=coded("engine-not-downloaded", "sha512-", "sha512-AAAA")):
        ensure_library(package)
    assert registry.kept() == []


def test_a_failing_npm_is_quoted_without_credentials(registry: FakeRegistry) -> None:
    with pytest.raises(
        SandboxError,
        match=coded("engine-not-downloaded", "exit code 7", "npm config get registry", "npm error code E404"),
    ) as caught:
        ensure_library(registry.serve_nothing())
    assert "https://***@registry/x" in caught.value.sentence
    assert "me:pw" not in caught.value.sentence
    assert registry.kept() == []


def test_a_tarball_without_the_library(registry: FakeRegistry) -> None:
    package = registry.serve(b"engine", member="package/index.js")
    with pytest.raises(SandboxError, match=coded("engine-not-downloaded", "package/libchdb.so")):
        ensure_library(package)
    assert registry.kept() == []


def test_the_wheels_npm_serves_where_the_path_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = registries.run_npm(["--version"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(".")[0].isdigit()


@pytest.mark.parametrize(
    ("system", "machine"),
    [pytest.param("linux", "aarch64", id="linux-arm"), pytest.param("darwin", "arm64", id="mac")],
)
def test_platforms_without_a_pinned_engine(system: str, machine: str) -> None:
    with pytest.raises(
        SandboxError, match=coded("platform-not-supported", f"{system} {machine}", "compose.yaml", "CH_S3_SANDBOX")
    ):
        engine.check_platform(system, machine)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({"CH_S3_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a", id="ours"),
        pytest.param({"XDG_CACHE_HOME": "/b"}, "/b/airflow-provider-ch-s3", id="xdg"),
        pytest.param({"HOME": "/h"}, "/h/.cache/airflow-provider-ch-s3", id="home"),
    ],
)
def test_cache_directory(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CH_S3_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert engine.cache_dir() == Path(expected)
