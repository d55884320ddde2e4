"""The process of a ClickHouse server: ``python server_main.py LIBRARY ARGS…`` is ``clickhouse ARGS…``.

Imports nothing of this package, so that a node starts fast and from any directory.
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

STOP_SECONDS = 8


def end_with_input() -> None:
    """End the server when its standard input, a pipe from the supervisor, reaches its end."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def main(library: str, *args: str) -> None:
    """Run the server until it ends."""
    # A supervisor that was killed leaves its servers running for a moment more: wait for the one that still has this
    # directory's data open. The lock ends with the process.
    lock = open("lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    # The server's own watchdog would be another process, which nobody watches.
    os.environ["CLICKHOUSE_WATCHDOG_ENABLE"] = "0"
    threading.Thread(target=end_with_input, daemon=True).start()

    engine = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    words = [b"clickhouse", *(arg.encode() for arg in args)]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    engine.main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    # Not sys.exit: the interpreter's end would wait for the thread.
    os._exit(engine.main(len(words), argv))


if __name__ == "__main__":
    main(*sys.argv[1:])
