"""The lock that says who runs the sandbox in a directory.

A POSIX record lock, because the kernel tells its owner's pid: a pid read from a file could have been
given to another process meanwhile. The lock ends with its owner, however that dies.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import IO

from airflow_provider_ch_s3.errors import SandboxError

LOCK_NAME = "lock"

# struct flock on 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


def acquire_lock(directory: Path) -> IO[str]:
    """Take the lock of a sandbox's directory; it is held until the file is closed.

    :raises SandboxError: if another sandbox runs there.
    """
    file = (directory / LOCK_NAME).open("a")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        file.close()
        raise SandboxError(
            f"another sandbox runs in {directory}; stop it with `ch-s3 sandbox down --dir {directory}`, "
            "or choose another directory"
        ) from exc
    return file


def lock_owner(directory: Path) -> int | None:
    """The pid of the supervisor that holds the directory's lock, or None."""
    try:
        file = (directory / LOCK_NAME).open("r+")
    except (FileNotFoundError, NotADirectoryError):
        return None
    with file:
        question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else int(pid)
