"""The process of one sandbox node: ``python embedded_main.py LIBRARY ARGS…`` is ``clickhouse-local ARGS…``.

Imports nothing of this package, so that a node starts fast and from any directory.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import sys

# What was standard input: the node lives until it reaches its end. Above what the interpreter itself has open.
LIFELINE_FD = 9


def main(library: str, *args: str) -> None:
    """Run the engine until its program ends."""
    # A supervisor that was killed leaves its nodes running for a moment more: wait for the one
    # that still has this directory's data open. The lock ends with the process.
    lock = open("lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Should the engine abort, each core file would take hundreds of MB.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))

    # Without a person at its prompt, clickhouse-local aborts when a peer or a client resets a connection, which a
    # server must survive. So its standard input is a terminal, on which its end is typed already: the prompt comes
    # after the last statement.
    os.dup2(0, LIFELINE_FD)
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"exit\n")
    os.dup2(terminal, 0)

    engine = ctypes.CDLL(library)
    words = [b"clickhouse-local", *(arg.encode() for arg in args)]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    engine.chdb_query_cmdline.restype = ctypes.c_void_p
    engine.chdb_result_error.argtypes = [ctypes.c_void_p]
    engine.chdb_result_error.restype = ctypes.c_char_p
    result = engine.chdb_query_cmdline(len(words), argv)
    # The engine prints no errors: they come in its result, which may be missing altogether.
    error = engine.chdb_result_error(result) if result else None
    if error:
        sys.exit(error.decode(errors="replace"))


if __name__ == "__main__":
    main(*sys.argv[1:])
