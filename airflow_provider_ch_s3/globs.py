"""Globs in object keys: as users write them, and as ClickHouse reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

# Characters that ClickHouse takes literally in the path of an S3 address (all others are globs, separators
# of a glob list, not escaped in the regex of a glob, or invalid in or rewritten by its URI parser; seen on 26.7).
UNSAFE_IN_PATH = re.compile(r"[^A-Za-z0-9_\-./=@:&;()'~!]|\.\.")
# ClickHouse finds nothing for a star in braces, and cannot read braces in braces (seen on 26.7).
UNREADABLE_BRACES = re.compile(r"\{[^{}]*[*{]")


def join_keys(keys: Sequence[str]) -> str:
    """One glob for many keys: ``dt={2013-01-01,2013-01-02}/flights.parquet``."""
    if len(keys) == 1:
        return keys[0]
    prefix = os.path.commonprefix(keys)
    suffix = os.path.commonprefix([key[len(prefix) :][::-1] for key in keys])[::-1]
    if prefix + suffix in keys:
        # ClickHouse takes braces with an empty choice for a part of the name
        prefix, suffix = (prefix[:-1], suffix) if prefix else (prefix, suffix[1:])
    middles = [key[len(prefix) : len(key) - len(suffix)] for key in keys]
    return f"{prefix}{{{','.join(middles)}}}{suffix}"


def glob_regex(glob: str) -> str:
    """Translate ClickHouse's globs: ``*`` and ``?`` stop at ``/``, ``**`` does not, ``**/`` may be no folder."""
    parts = []
    for token in re.split(r"((?:(?<=/)|^)\*\*/|\*\*|\*|\?|\{[^{}]*\})", glob):
        if token == "**/":
            parts.append("(?:[^/]*/)*")
        elif token == "**":
            parts.append(".*")
        elif token == "*":
            parts.append("[^/]*")
        elif token == "?":
            parts.append("[^/]")
        elif token.startswith("{") and token.endswith("}"):
            parts.append(_braces_regex(token[1:-1]))
        else:
            parts.append(re.escape(token))
    return "".join(parts)


def _braces_regex(inner: str) -> str:
    span = re.fullmatch(r"(\d+)\.\.(\d+)", inner)
    if span:
        low, high = sorted(span.groups(), key=int)
        # ClickHouse keeps leading zeros: {01..12} means 01, 02, … 12, while {0..12} means 0, 1, … 12
        width = max(len(low), len(high)) if low.startswith("0") and len(low) > 1 else 0
        choices = [f"{number:0{width}d}" for number in range(int(low), int(high) + 1)]
    else:
        choices = inner.split(",")
    return "(?:" + "|".join(glob_regex(choice) for choice in choices) + ")"
