"""The process of one sandbox node: ``python node_main.py embedded|server LIBRARY ARGS…``.

``embedded`` is ``clickhouse-local ARGS…``, ``server`` is ``clickhouse ARGS…``. Imports nothing of this package, so
that a node starts fast and from any directory.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import sys
import threading
import time

# What was standard input: an embedded node lives until it reaches its end. Above what the interpreter itself has
# open.
LIFELINE_FD = 9
STOP_SECONDS = 8


def main(kind: str, library: str, *args: str) -> None:
    """Run the engine until its program ends."""
    # A supervisor that was killed leaves its nodes running for a moment more: wait for the one
    # that still has this directory's data open. The lock ends with the process.
    lock = open("lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Should the engine abort, each core file would take hundreds of MB.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    if kind == "embedded":
        run_embedded(library, "clickhouse-local", *args)
    else:
        run_server(library, "clickhouse", *args)


def run_embedded(library: str, *words: str) -> None:
    """Run ``clickhouse-local`` with a terminal in the place of its standard input."""
    # Without a person at its prompt, clickhouse-local aborts when a peer or a client resets a connection, which a
    # server must survive. So its standard input is a terminal, on which its end is typed already: the prompt comes
    # after the last statement.
    os.dup2(0, LIFELINE_FD)
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"exit\n")
    os.dup2(terminal, 0)

    engine = ctypes.CDLL(library)
    engine.chdb_query_cmdline.restype = ctypes.c_void_p
    engine.chdb_result_error.argtypes = [ctypes.c_void_p]
    engine.chdb_result_error.restype = ctypes.c_char_p
    result = engine.chdb_query_cmdline(len(words), to_argv(words))
    # The engine prints no errors: they come in its result, which may be missing altogether.
    error = engine.chdb_result_error(result) if result else None
    if error:
        sys.exit(error.decode(errors="replace"))


def run_server(library: str, *words: str) -> None:
    """Run a server, until its standard input, a pipe from the supervisor, reaches its end."""
    # The server's own watchdog would be another process, which nobody watches.
    os.environ["CLICKHOUSE_WATCHDOG_ENABLE"] = "0"
    threading.Thread(target=end_with_input, daemon=True).start()

    engine = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    engine.main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    # Not sys.exit: the interpreter's end would wait for the thread.
    os._exit(engine.main(len(words), to_argv(words)))


def end_with_input() -> None:
    """Ask this process to end when its standard input does, and kill it if it takes too long."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def to_argv(words: tuple[str, ...]) -> ctypes.Array[ctypes.c_char_p]:
    """Get what C calls ``argv``, with its NULL at the end."""
    return (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)


if __name__ == "__main__":
    main(*sys.argv[1:])
