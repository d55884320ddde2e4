"""The process of a sandbox node: ``python node_main.py embedded|server LIBRARY ARGS…``.

``embedded`` is ``clickhouse-local ARGS…``, ``server`` is ``clickhouse ARGS…``. Imports nothing from this package, so
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

# The original standard input: an embedded node runs until its end. Higher than any descriptor of the interpreter.
LIFELINE_FD = 9
STOP_SECONDS = 8


def main(kind: str, library: str, *args: str) -> None:
    """Run the engine until it exits."""
    # The nodes of a killed supervisor keep running for a moment: wait for the one that still has this directory's
    # data open. The lock ends with the process.
    lock = open("lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    # If the engine aborted, each core file would take hundreds of MB.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    if kind == "embedded":
        run_embedded(library, "clickhouse-local", *args)
    else:
        run_server(library, "clickhouse", *args)


def run_embedded(library: str, *words: str) -> None:
    """Run ``clickhouse-local`` with a terminal as standard input."""
    # When it is not interactive, clickhouse-local aborts if a peer or a client resets a connection, which a server
    # must survive. So its standard input is a terminal, on which "exit" has already been typed: the prompt appears
    # after the last statement.
    os.dup2(0, LIFELINE_FD)
    threading.Thread(target=end_with_input, args=(LIFELINE_FD,), daemon=True).start()
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"exit\n")
    os.dup2(terminal, 0)

    engine = ctypes.CDLL(library)
    engine.chdb_query_cmdline.restype = ctypes.c_void_p
    engine.chdb_result_error.argtypes = [ctypes.c_void_p]
    engine.chdb_result_error.restype = ctypes.c_char_p
    result = engine.chdb_query_cmdline(len(words), to_argv(words))
    # The engine prints no errors: they are in its result, which may be missing altogether.
    error = engine.chdb_result_error(result) if result else None
    if error:
        sys.exit(error.decode(errors="replace"))


def run_server(library: str, *words: str) -> None:
    """Run a server until the end of the standard input, a pipe from the supervisor."""
    # The server's own watchdog would be another process, which nothing supervises.
    os.environ["CLICKHOUSE_WATCHDOG_ENABLE"] = "0"
    # By now, what it names is loaded (cores.py); a server ends at once if the variable is set.
    os.environ.pop("LD_PRELOAD", None)
    threading.Thread(target=end_with_input, args=(0,), daemon=True).start()

    engine = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    engine.main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    # Not sys.exit: the interpreter would wait for the thread.
    os._exit(engine.main(len(words), to_argv(words)))


def end_with_input(lifeline: int) -> None:
    """Terminate this process at the end of the standard input; kill the process if terminating takes too long."""
    while os.read(lifeline, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def to_argv(words: tuple[str, ...]) -> ctypes.Array[ctypes.c_char_p]:
    """Build a C ``argv``, terminated by NULL."""
    return (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)


if __name__ == "__main__":
    main(*sys.argv[1:])
