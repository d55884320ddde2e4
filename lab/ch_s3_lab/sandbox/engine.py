"""The ClickHouse engines as shared libraries: each is downloaded once, verified, and kept in a cache."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import platform
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ch_s3.discretion import get_log
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.config import EMBEDDED
from ch_s3_lab.sandbox.registries import Registry, fetch, show_bytes, unpack

_log = get_log(__name__)


@dataclass(frozen=True, kw_only=True)
class EnginePackage:
    """A registry's package with an engine's shared library.

    :param integrity: name of a hash, ``-``, and the base64 of the archive's digest, as npm registries print it.
    :param library: path of the shared library in the package.
    :param parts: folders of the package with what the library is linked to.
    """

    name: str
    version: str
    integrity: str
    registry: Registry = Registry.NPM
    library: str = "libchdb.so"
    parts: tuple[str, ...] = ()


def _wheel(version: str, integrity: str, abi: str) -> EnginePackage:
    return EnginePackage(
        name="chdb",
        version=version,
        integrity=integrity,
        registry=Registry.PYPI,
        library=f"chdb/_chdb.{abi}.so",
        parts=("chdb.libs",),
    )


# Each wheel of 24.8 works with a single version of Python.
_PACKAGES = {
    EMBEDDED: EnginePackage(
        name="@chdb/lib-linux-x64-gnu",
        version="26.7.3-stable.1",
        integrity="sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==",
    ),
    "25.8": _wheel("3.7.2", "sha256-wRnwgwwSQ4pOS2C4NwhZulCZLosbAajGgeHFfustyC0=", "abi3"),
}
_PACKAGES_24_8 = {
    (3, 11): _wheel("3.2.0", "sha256-T4b7z8oWq59qTJu/gkqii2StV/Vy/m2e80L4ZGQ+g/E=", "cpython-311-x86_64-linux-gnu"),
    (3, 12): _wheel("3.2.0", "sha256-yXrNSx4AQYtWycc0E8dApXaGXuZZKvs+3lF3bWrZ1zI=", "cpython-312-x86_64-linux-gnu"),
    (3, 13): _wheel("3.2.0", "sha256-ERfki7v2czL0qjm+cFaFGxrUUYzGbD/qQAJwa9Z1q7Q=", "cpython-313-x86_64-linux-gnu"),
}


def package_of(engine: str) -> EnginePackage:
    """Return the pinned package of an engine, for this machine and this version of Python.

    :param engine: as in ``SandboxConfig``.
    :raises SandboxError: if there is none for this machine, or for this version of Python.
    """
    check_platform(sys.platform, platform.machine())
    if engine == "24.8":
        python = sys.version_info[:2]
        if python not in _PACKAGES_24_8:
            known = ", ".join(f"{major}.{minor}" for major, minor in _PACKAGES_24_8)
            raise SandboxError(
                "platform-not-supported",
                f"the engine 24.8 requires Python {known}, and this is {python[0]}.{python[1]}; use one of them, or"
                " --engine 25.8",
            )
        return _PACKAGES_24_8[python]
    return _PACKAGES[engine]


def ensure_library(package: EnginePackage) -> Path:
    """Return an engine's library, downloading it on first use (140 to 180 MB).

    Any number of processes may call this at once: the first process downloads the library, and the rest wait.

    :raises SandboxError: if the download fails or has another checksum; the cache then does not change.
    """
    directory = cache_dir() / "engine" / package.version
    library = directory / package.library
    if library.exists():
        return library
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _install(package, directory)
    return library


def cache_dir() -> Path:
    """Return where downloads are kept: ``CH_S3_CACHE_DIR``, or else a directory in the user's cache."""
    if chosen := os.environ.get("CH_S3_CACHE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "airflow-provider-ch-s3"


def check_platform(system: str, machine: str) -> None:
    """Check that the engines run on this machine.

    :raises SandboxError: if they do not.
    """
    if (system, machine) != ("linux", "x86_64"):
        raise SandboxError(
            "platform-not-supported",
            f"the sandbox's engines are available for linux x86_64 only, and this is {system} {machine}; "
            "start the servers of compose.yaml with `docker compose up --detach --wait`, and set CH_S3_SANDBOX to the"
            " path of compose.yaml (`ch-s3 docs sandbox`)",
        )


def _install(package: EnginePackage, directory: Path) -> None:
    # The caller holds the lock, so a directory of this name was left behind by a killed download.
    scratch = directory / "download"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        _log.info("downloading the ClickHouse engine %s %s (once)", package.name, package.version)
        with show_bytes("140 to 180 MB", lambda: _size_of(scratch)):
            archive = fetch(package.registry, package.name, package.version, scratch)
        _verify(package, archive)
        unpacked = scratch / "unpacked"
        unpack(package.registry, archive, unpacked, library=package.library, parts=package.parts)
        # The library comes last: once it exists, so does everything that it needs.
        for part in sorted(unpacked.rglob("*"), key=lambda path: path == unpacked / package.library):
            if part.is_file():
                target = directory / part.relative_to(unpacked)
                target.parent.mkdir(parents=True, exist_ok=True)
                part.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _size_of(directory: Path) -> int:
    """Sum up the files of a directory while some come and go."""
    total = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total


def _verify(package: EnginePackage, archive: Path) -> None:
    algorithm = package.integrity.partition("-")[0]
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, algorithm).digest()
    found = f"{algorithm}-{base64.b64encode(digest).decode()}"
    if found != package.integrity:
        raise SandboxError(
            "engine-not-downloaded",
            f"the archive of {package.name} {package.version} has the checksum {found} instead of "
            f"{package.integrity}: the registry served a different file, which was deleted; ask the registry's "
            "administrator",
        )
