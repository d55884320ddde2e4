"""Nodes can count more cores than the machine has: for plans, parts and merges, not for seconds."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ch_s3_lab.errors import SandboxError
from ch_s3_lab.sandbox.engine import cache_dir

SOURCE = Path(__file__).with_name("cores.c")


def pretend_cores(cores: int | None) -> dict[str, str]:
    """Return the environment for a node to count so many cores; the machine's cores for None.

    :raises SandboxError: if the machine has no C compiler.
    """
    return {} if cores is None else {"LD_PRELOAD": str(_ensure_library()), "CH_S3_CORES": str(cores)}


def _ensure_library() -> Path:
    """Return the compiled ``cores.c``, which is compiled on first use."""
    library = cache_dir() / f"cores-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}.so"
    if library.exists():
        return library
    compiler = shutil.which("cc")
    if compiler is None:
        raise SandboxError(
            "sandbox-not-started",
            "cores is given, but this machine has no C compiler (cc) to build what makes a node count other cores;"
            " install one, or leave cores out",
        )
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as unfinished:
        built = Path(unfinished) / library.name
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", built, SOURCE, "-ldl"], check=True)
        os.replace(built, library)
    return library
