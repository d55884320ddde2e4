"""Format bytes, counts and durations for people to read."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_BYTE_UNITS = ((1024 * GIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


def format_bytes(size_bytes: float) -> str:
    """Format a size with a binary unit: ``1536`` becomes ``1.5 KiB``."""
    for unit_bytes, name in _BYTE_UNITS:
        if abs(size_bytes) >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f} {name}"
    return f"{size_bytes:.0f} B"


def format_count(count: float) -> str:
    """Format a whole number with thousands separators: ``336776`` becomes ``336,776``."""
    return f"{count:,.0f}"


def count_of(count: float, noun: str) -> str:
    """Format a count with its noun, whose plural ends in s: ``1 file``, ``1,200 files``."""
    text = format_count(count)
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def format_estimate(seconds: float) -> str:
    """Format a duration that is only an estimate: ``under a second``, ``3.2 s``."""
    return "under a second" if seconds < 1 else format_seconds(seconds)


def format_seconds(seconds: float) -> str:
    """Format a duration: ``3.2 s``, ``4 min 05 s``, ``2 h 03 min``."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_seconds:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
