"""Globs in object keys: as users write them, and as ClickHouse expands them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

# All characters that ClickHouse does not take literally in the path of an S3 address: globs, separators of a glob
# list, those it does not escape in the regex of a glob, those that its URI parser rejects or rewrites (seen on 26.7).
UNSAFE_IN_PATH = re.compile(r"[^A-Za-z0-9_\-./=@:&;()'~!]|\.\.")
# ClickHouse matches nothing for a star in braces, and cannot parse nested braces (seen on 26.7).
UNREADABLE_BRACES = re.compile(r"\{[^{}]*[*{]")
WILDCARD = re.compile(r"[*?{]")


def before_wildcards(glob: str) -> str:
    """The start of a glob, up to its first wildcard: all that it matches begins like this."""
    return WILDCARD.split(glob, maxsplit=1)[0]


def join_keys(keys: Sequence[str]) -> str:
    """Combine many keys into one glob: ``dt={2013-01-01,2013-01-02}/flights.parquet``."""
    if len(keys) == 1:
        return keys[0]
    prefix = os.path.commonprefix(keys)
    suffix = os.path.commonprefix([key[len(prefix) :][::-1] for key in keys])[::-1]
    if prefix + suffix in keys:
        # ClickHouse takes braces with an empty choice literally, as part of the name
        prefix, suffix = (prefix[:-1], suffix) if prefix else (prefix, suffix[1:])
    middles = [key[len(prefix) : len(key) - len(suffix)] for key in keys]
    return f"{prefix}{{{','.join(middles)}}}{suffix}"


def glob_regex(glob: str) -> str:
    """Translate a ClickHouse glob: ``*`` and ``?`` stop at ``/``, ``**`` does not, ``**/`` also matches no folder."""
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


def parse_span(inner: str) -> tuple[int, int, int] | None:
    """Parse what is in the braces of ``{1..9}``; None if it is something else.

    ClickHouse keeps leading zeros: ``{01..12}`` means 01, 02, … 12, while ``{0..12}`` means 0, 1, … 12.

    :returns: the lowest and the highest number, and to how many digits they are filled up; 0 for no filling.
    """
    span = re.fullmatch(r"(\d+)\.\.(\d+)", inner, re.ASCII)
    if span is None:
        return None
    low, high = sorted(span.groups(), key=int)
    width = max(len(low), len(high)) if low.startswith("0") and len(low) > 1 else 0
    return int(low), int(high), width


def _braces_regex(inner: str) -> str:
    span = parse_span(inner)
    if span is None:
        return _one_of(glob_regex(choice) for choice in inner.split(","))
    low, high, width = span
    if width:
        return _numbers_regex(str(low).zfill(width), str(high).zfill(width))
    # Numbers with more digits are larger, so each length is a range of its own.
    lengths = range(len(str(low)), len(str(high)) + 1)
    smallest = (str(max(low, 10 ** (length - 1) if length > 1 else 0)) for length in lengths)
    largest = (str(min(high, 10**length - 1)) for length in lengths)
    return _one_of(_numbers_regex(first, last) for first, last in zip(smallest, largest, strict=True))


def _numbers_regex(low: str, high: str) -> str:
    """Match all numbers between two with the same number of digits, digit by digit: a range may hold millions."""
    if low == "0" * len(low) and high == "9" * len(high):
        return "[0-9]" * len(low)
    first, last, rest = int(low[0]), int(high[0]), len(low) - 1
    if first == last:
        return low[0] + _numbers_regex(low[1:], high[1:])
    parts = [low[0] + _numbers_regex(low[1:], "9" * rest)]
    if first + 1 < last:
        parts.append(f"[{first + 1}-{last - 1}]" + "[0-9]" * rest)
    parts.append(high[0] + _numbers_regex("0" * rest, high[1:]))
    return _one_of(parts)


def _one_of(regexes: Iterable[str]) -> str:
    return "(?:" + "|".join(regexes) + ")"
