"""The state of a process, as the kernel reports it."""

from __future__ import annotations

from pathlib import Path


def process_state(pid: int) -> str:
    """Return the state's letter as in ``ps``, such as T for a stopped process; '' if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def alive(pid: int) -> bool:
    """Whether the process exists, other than as a zombie."""
    return process_state(pid) not in ("", "Z")
