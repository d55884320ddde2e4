"""Show external names in messages, with invisible characters escaped."""

from __future__ import annotations

import unicodedata

# Letters and marks that are displayed as nothing or as a space, although their Unicode category does not say so.
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)


def show_name(name: str) -> str:
    """Return the name as it is, or quoted and escaped if it is empty, padded with spaces, or partly invisible.

    ``id`` stays ``id``; with a byte order mark before it, it becomes ``'\\ufeffid'``.
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
    """Whether a string is text: it has no lone surrogate, which nothing outside of Python could take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
