"""One SQL statement, ready to be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Statement:
    """SQL text, and the query parameters that are sent separately.

    :param name: what it does, as its ``render_`` function has it; for logs, and for tests that stop a process there.
    :param text: the SQL; contains placeholders such as ``{s3_secret:String}``, never a secret.
    :param parameters: values of the placeholders; may contain secrets, so they are kept out of ``repr``.
    :param settings: what is sent separately of settings, too: the connected server obeys them, and tells other nodes
        only of values that are not its own.
    :param keeps_final: it is a user's own query, which reads with ``FINAL`` if the user's profile has it.
    :param reads_profiles: it asks what the profiles of other nodes set.
    """

    text: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, int | float | str] = field(default_factory=dict)
    keeps_final: bool = False
    reads_profiles: bool = False


# ClickHouse quotes whole statements in its messages, with thousands of keys; the useful parts are at both ends.
MESSAGE_LIMIT = 800


# What an error of another node has between its text and its name.
STACK_TRACE = re.compile(r",? ?Stack trace[:( ](?:.*(?= \([A-Z][A-Z0-9_]{2,}\))|.*)", re.DOTALL)


# Of SQL that is shown: a copy of an ordinary statement runs, and one that lists thousands of keys is cut.
SQL_LINE_LIMIT = 4_000


def shorten_lines(text: str, *, limit: int = 300) -> str:
    """Shorten long lines for a log: one that lists thousands of keys is cut in the middle."""
    return "\n".join(_shorten(line, limit) for line in text.splitlines())


def _shorten(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    half = limit // 2
    return f"{line[:half]} … {len(line) - 2 * half:,} characters … {line[-half:]}"
