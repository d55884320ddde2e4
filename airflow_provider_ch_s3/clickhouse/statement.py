"""A SQL statement, ready to be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SettingValue = int | float | str


@dataclass(frozen=True, kw_only=True)
class Statement:
    """SQL text, and the query parameters sent separately.

    :param name: what the statement does, as its ``render_`` function says; for logs, and for tests that stop a
        process at a statement.
    :param text: the SQL; contains placeholders such as ``{s3_secret:String}``, never a secret.
    :param parameters: values of the placeholders; kept out of ``repr``, because they may be secrets.
    :param settings: settings sent separately, too. The connected server obeys them, and passes only values different
        from the server's own on to further nodes.
    :param keeps_final: whether the text is a user's query, to be read with ``FINAL`` if the user's profile has FINAL.
    :param reads_profiles: whether the text asks what the profiles of all nodes set.
    """

    text: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    keeps_final: bool = False
    reads_profiles: bool = False


# ClickHouse quotes whole statements in its messages, with thousands of keys; the useful parts are at both ends.
MESSAGE_LIMIT = 800


# The text between message and name in an error from another node.
STACK_TRACE = re.compile(r",? ?Stack trace[:( ](?:.*(?= \([A-Z][A-Z0-9_]{2,}\))|.*)", re.DOTALL)


# For shown SQL: a copy of an ordinary statement runs, and a statement with thousands of keys is cut.
SQL_LINE_LIMIT = 4_000


def shorten_lines(text: str, *, limit: int = 300) -> str:
    """Shorten long lines for a log: a line with thousands of keys is cut in the middle."""
    return "\n".join(_shorten(line, limit) for line in text.splitlines())


def _shorten(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    half = limit // 2
    return f"{line[:half]} … {len(line) - 2 * half:,} characters … {line[-half:]}"
