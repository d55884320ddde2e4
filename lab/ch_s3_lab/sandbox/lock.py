"""The lock of a sandbox's directory, held by the supervisor running there.

A POSIX record lock, because the kernel reports the owner's pid: a pid read from a file could have been reused by
another process since. The lock ends with the owner, in whatever way the owner dies.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import IO

from ch_s3_lab.errors import SandboxError

LOCK_NAME = "lock"

# struct flock on 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


def acquire_lock(directory: Path) -> IO[str]:
    """Acquire the lock of a sandbox's directory, and hold the lock until the file is closed.

    :raises SandboxError: if another sandbox is running there.
    """
    file = (directory / LOCK_NAME).open("a")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        file.close()
        raise SandboxError(
            "sandbox-runs-already",
            f"another sandbox is running in {directory}; stop it with `ch-s3 sandbox down --dir {directory}`, "
            "or use another directory",
        ) from exc
    return file


def lock_owner(directory: Path) -> int | None:
    """Return the pid of the supervisor holding the directory's lock, or None."""
    try:
        file = (directory / LOCK_NAME).open("r+")
    except (FileNotFoundError, NotADirectoryError):
        return None
    with file:
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, wanted))
    return None if kind == fcntl.F_UNLCK else int(pid)
