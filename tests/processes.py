"""What the kernel says of a process."""

from __future__ import annotations

from pathlib import Path


def process_state(pid: int) -> str:
    """The letter that ``ps`` shows, such as T for one that was stopped; '' if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def alive(pid: int) -> bool:
    """Does the process exist, other than as a zombie?"""
    return process_state(pid) not in ("", "Z")
