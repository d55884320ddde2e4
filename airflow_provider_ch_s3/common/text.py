"""Text for people: bytes, counts and durations formatted, external names with invisible characters escaped.

A line of a log may end with facts, for the pages that read the log: people change a sentence, and no chart breaks.
"""

from __future__ import annotations

import difflib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_ch_s3.discretion import FACTS_BEGIN

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
    """Format a count with a noun whose plural ends in s: ``1 file``, ``1,200 files``."""
    text = format_count(count)
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def name_first(name: str, count: int) -> str:
    """Name the first of several: ``'a.csv'``, ``'a.csv' and 2 more``."""
    return f"{name!r} and {count - 1} more" if count > 1 else repr(name)


def shorten(text: str, characters: int) -> str:
    """Cut a text after so many characters."""
    return text if len(text) <= characters else f"{text[:characters]}…"


def fold_name(name: str) -> str:
    """Return the letters and digits of a name in lower case: `First Name` and `first_name` are alike then.

    In a name without letters, such as ``2024-01-01``, the signs count.
    """
    folded = name.casefold()
    # marks are the vowels of Hindi and Thai
    bare = "".join(one for one in folded if one == "#" or unicodedata.category(one)[0] in "LMN")
    return bare if any(map(str.isalpha, bare)) else folded


def format_estimate(seconds: float) -> str:
    """Format an estimated duration: ``under a second``, ``3.2 s``."""
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


def format_address(host: str, port: int) -> str:
    """Format the address of a server: ``ch1:8123``, ``[::1]:8123``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def with_facts(text: str, facts: Mapping[str, Any]) -> str:
    """Add facts to the end of a line: ``480 rows [ch-s3 {"rows": 480}]``, for ``plugins/static/api.js``."""
    return f"{text}{FACTS_BEGIN}{json.dumps(facts)}]"


SIMILARITY = 0.71
"""How similar a misspelt name is at least; names that only begin alike (`replace`, `replace_table`) are less so."""


def find_nearest(name: str, known: Iterable[str]) -> str:
    """Find the name that a misspelt name was meant as, in whatever case; '' if none is near."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=SIMILARITY)
    return by_lower[near[0]] if near else ""


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return the remedy for an unknown name: the nearest known name, or what to do if none is near."""
    return f"did you mean {near!r}?" if (near := find_nearest(name, known)) else otherwise


# Letters and marks that are displayed as nothing or as a space, although their Unicode category does not say so.
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)


def show_name(name: str) -> str:
    """Return the name unchanged, or quoted and escaped if the name is empty, padded with spaces or partly invisible.

    ``id`` stays ``id``; with a byte order mark in front, ``id`` becomes ``'\\ufeffid'``.
    """
    if name and name == name.strip() and all(map(_is_visible, name)):
        return name
    return "'" + "".join(c if _is_visible(c) else c.encode("unicode_escape").decode() for c in name) + "'"


def _is_visible(character: str) -> bool:
    if character == " ":
        return True
    is_blank = character in _BLANK_LETTERS or ord(character) in _VARIATION_SELECTORS
    return not is_blank and unicodedata.category(character)[0] not in "CZ"


def is_text(text: str) -> bool:
    """Whether a string is text: a lone surrogate is not, and nothing outside of Python could take it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def show_version(version: tuple[int, int]) -> str:
    """Show year and release of a server: ``26.7``."""
    return ".".join(map(str, version))
