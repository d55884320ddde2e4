"""What a user may write as SQL: one flat expression. Checked by its tokens, not parsed.

A load's SELECT must stay flat (a subquery makes every node's rows go through one node), and an expression
must not end the statement around it. Both can be told from the tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider_ch_s3.errors import ConfigError

_TOKEN = re.compile(
    r"""
      (?P<string>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`\\]|\\.|``)*`)
    | (?P<comment>--|//|/\*|\#!|\#\ )
    | (?P<placeholder>\{\s*(?:[^\W\d]\w*|`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*")\s*:)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<comma>,)
    | (?P<semicolon>;)
    | (?P<quote>['"`])
    | (?P<foreign>[\u2018\u2019\u201c\u201d$\\])
    | (?P<word>\w+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_FORBIDDEN_WORDS = frozenset({"select", "union", "settings", "format"})


def split_expressions(text: str) -> list[str]:
    """Split at the commas that stand outside of quotes and brackets.

    ``"a, f(b, 'c,d')"`` becomes ``["a", "f(b, 'c,d')"]``.

    :raises ConfigError: if a quote or bracket does not close, or a comment, a ``;``, a query
        parameter or a subquery is found.
    """
    parts: list[str] = []
    waiting: list[str] = []
    start = 0
    for token in _TOKEN.finditer(text):
        problem = _problem(text, token, waiting)
        if problem:
            raise ConfigError(f"the expression {text!r} {problem}; write one flat SQL expression")
        if token.lastgroup == "comma" and not waiting:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    if waiting:
        raise ConfigError(f"the expression {text!r} lacks a closing {waiting[-1]!r}; write one flat SQL expression")
    parts.append(text[start:].strip())
    return parts


def _problem(text: str, token: re.Match[str], waiting: list[str]) -> str:
    """What is wrong with a token; keeps ``waiting``, the brackets that are still to close."""
    found = token.group()
    match token.lastgroup:
        case "open":
            waiting.append(_CLOSING[found])
        case "close" if not waiting or waiting.pop() != found:
            return f"has an unmatched {found!r}"
        case "quote":
            return f"has an unclosed {found}"
        case "foreign":
            # ClickHouse begins texts with curly quotes and $tag$ as well, and this tokenizer knows no end of those
            return f"holds a {found} outside of quotes"
        case "placeholder":
            # the load's own parameters hold secrets
            return "holds a query parameter"
        case "comment":
            return "holds a comment"
        case "semicolon":
            return "holds a ';'"
        case "word" if found.lower() in _FORBIDDEN_WORDS and not _is_called(text, token.end()):
            return f"holds the keyword {found.upper()}"
    return ""


def _is_called(text: str, end: int) -> bool:
    # format('{}', x) is a function; SELECT (1) is not, but no function is called select
    return text[end:].lstrip().startswith("(") and text[:end].lower().endswith("format")


def parse_expression(text: str) -> str:
    """Check that a text is one flat SQL expression.

    :returns: the text without surrounding white space.
    :raises ConfigError: if it is empty, more than one, or not flat; says why.
    """
    parts = split_expressions(text)
    if len(parts) != 1 or not parts[0]:
        count = len([part for part in parts if part])
        raise ConfigError(f"expected one SQL expression and found {count} in {text!r}")
    return parts[0]


def find_names(text: str) -> Iterator[str]:
    """The names in an expression that are not called: columns, and words such as AND.

    ``"f(day) > `a b` AND t.n = 1"`` has day, a b, AND, t, 1.
    """
    for token in _TOKEN.finditer(text):
        found = token.group()
        is_word = token.lastgroup == "word" or found[0] in '`"'
        if is_word and text[: token.start()].rstrip()[-1:] != "." and text[token.end() :].lstrip()[:1] != "(":
            yield found.strip('`"')
