"""The object store of a benchmark: versitygw if Go is available to build it, otherwise the sandbox's own.

The sandbox's own store is written in Python, so a benchmark would measure the store more than ClickHouse.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ch_s3.discretion import get_log
from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.bound import bound_command
from ch_s3_lab.sandbox.engine import cache_dir
from ch_s3_lab.sandbox.launch import end_process
from ch_s3_lab.sandbox.object_store import new_access_key, start_object_store
from ch_s3_lab.sandbox.ports import free_ports
from ch_s3_lab.sandbox.s3_server import S3Server

# Go itself verifies its downloads against its public checksum database.
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw"
VERSITYGW_VERSION = "v1.8.0"
BUILD_TIMEOUT_SECONDS = 900
START_TIMEOUT_SECONDS = 20.0

log = get_log(__name__)


@dataclass(frozen=True, kw_only=True)
class Store(S3Server):
    """A running object store.

    :param name: name of the program, for the report.
    """

    name: str


@contextmanager
def running_store(*, is_built_in: bool = False) -> Iterator[Store]:
    """Run an object store for as long as the block lasts. The files of versitygw stay in the cache.

    :param is_built_in: whether to use the sandbox's own store even if versitygw is available.
    :raises SandboxError: if the store does not start.
    """
    program = None if is_built_in else ensure_versitygw()
    access_key, secret_key = new_access_key()
    port = free_ports(1)[0]
    store = Store(
        name=program.name if program else "moto",
        endpoint_url=f"http://127.0.0.1:{port}",
        access_key=access_key,
        secret_key=secret_key,
    )
    if program is None:
        start_object_store(port=port, access_key=access_key, secret_key=secret_key)
        yield store
        return
    directory = cache_dir() / "bench" / "objects"
    directory.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        bound_command([str(program), "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(directory)]),
        env={"ROOT_ACCESS_KEY": access_key, "ROOT_SECRET_KEY": secret_key, "PATH": os.defpath},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(store, process)
        yield store
    finally:
        end_process(process)


def _wait(store: Store, process: subprocess.Popen[bytes]) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        try:
            store.client().list_buckets()
            return
        except (BotoCoreError, ClientError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SandboxError(
                    "sandbox-not-started",
                    f"{store.name} did not respond within {START_TIMEOUT_SECONDS:.0f} s: {error}; remove"
                    f" {cache_dir() / 'bench'} and try again",
                ) from error
            time.sleep(0.1)


def ensure_versitygw() -> Path | None:
    """Return the path of versitygw, which is built on first use; None without Go."""
    directory = cache_dir() / "bench" / VERSITYGW_VERSION
    program = directory / "versitygw"
    go = shutil.which("go")
    if program.exists() or go is None:
        return program if program.exists() else None
    log.info("building versitygw %s (once; takes a minute or two)", VERSITYGW_VERSION)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as unfinished:
        done = subprocess.run(
            [go, "install", f"{VERSITYGW}@{VERSITYGW_VERSION}"],
            env={**os.environ, "GOBIN": unfinished},
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            log.warning(
                "versitygw could not be built, so the benchmark uses moto, which is slow: %s", done.stderr.strip()
            )
            return None
        os.replace(Path(unfinished) / "versitygw", program)
    return program
