"""Split SQL into tokens as ClickHouse would, as far as this package needs.

Outside of quotes, a text may contain only characters that both sides read alike. ClickHouse skips some thirty further
characters as white space, and also accepts curly quotes and ``$tag$`` around texts: a name could hide behind them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ch_s3.errors import ConfigError

_TOKEN = re.compile(
    r"""
      (?P<string>'(?:[^'\\]|\\.|'')*')
    | (?P<name>"(?:[^"\\]|\\.|"")*" | `(?:[^`\\]|\\.|``)*`)
    | (?P<comment>--|//|/\*|\#!|\#\ )
    | (?P<placeholder>\{[ \t\r\n]*(?:[^\W\d]\w*|`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*")[ \t\r\n]*:)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<comma>,)
    | (?P<semicolon>;)
    | (?P<quote>['"`])
    | (?P<space>[ \t\r\n]+)
    | (?P<word>\w+)
    | (?P<operator>[!\#%&*+\-./:<=>?@^|~])
    | (?P<foreign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class TokenKind(Enum):
    """The kind of a token in ClickHouse; ``NAME`` is a quoted name."""

    STRING = "string"
    NAME = "name"
    WORD = "word"
    OPEN = "open"
    CLOSE = "close"
    COMMA = "comma"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    :param text: as written; words in lower case.
    :param depth: how many brackets are open around the token.
    :param start: position in the text.
    """

    kind: TokenKind
    text: str
    depth: int
    start: int


def tokenize(text: str) -> tuple[Token, ...]:
    """Split a text into tokens, without white space.

    :raises ConfigError: if a quote or bracket is not closed, or the text contains a comment, a ``;``, a query
        parameter, or a character that ClickHouse may read differently.
    """
    tokens: list[Token] = []
    expected_brackets: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, found = str(match.lastgroup), match.group()
        if kind == "close" and (not expected_brackets or expected_brackets.pop() != found):
            raise refuse(text, f"has an unmatched {found!r}")
        if problem := _problem(kind, found):
            raise refuse(text, problem)
        if kind != "space":
            written = found.lower() if kind == "word" else found
            tokens.append(Token(TokenKind(kind), written, len(expected_brackets), match.start()))
        if kind == "open":
            expected_brackets.append(_CLOSING[found])
    if expected_brackets:
        raise refuse(text, f"lacks a closing {expected_brackets[-1]!r}")
    return tuple(tokens)


def refuse(text: str, problem: str, remedy: str = "write one flat SQL expression") -> ConfigError:
    """Build the error for an expression: the text, what is wrong with it, and what to write instead."""
    return ConfigError("expression-invalid", f"the expression {text!r} {problem}; {remedy}")


def split_at_commas(tokens: Sequence[Token], depth: int = 0) -> list[Sequence[Token]]:
    """Split a list into its elements, at the commas of the given depth."""
    commas = [n for n, token in enumerate(tokens) if token.kind is TokenKind.COMMA and token.depth == depth]
    return [tokens[start + 1 : end] for start, end in zip([-1, *commas], [*commas, len(tokens)], strict=True)]


def _problem(kind: str, found: str) -> str:
    match kind:
        case "quote":
            return f"has an unclosed {found}"
        case "foreign":
            code = f"U+{ord(found):04X} {unicodedata.name(found, '')}".rstrip()
            return f"contains {found!r} ({code}) outside of quotes"
        case "placeholder":
            # the load's own parameters hold secrets
            return "contains a query parameter"
        case "comment":
            return "contains a comment"
        case "semicolon":
            return "contains a ';'"
    return ""
