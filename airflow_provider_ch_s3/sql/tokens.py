"""SQL as tokens: what ClickHouse would read, as far as this package needs to know it.

Outside of quotes only characters that both sides read alike are taken. ClickHouse skips some thirty others as white
space, and begins texts with curly quotes and ``$tag$``: a name could hide behind those.
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
    """What a token is to ClickHouse; ``NAME`` is a quoted one."""

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

    :param text: as it was written; a word in lower case.
    :param depth: how many brackets are open around it.
    :param start: where it stands in the text.
    """

    kind: TokenKind
    text: str
    depth: int
    start: int


def tokenize(text: str) -> tuple[Token, ...]:
    """Split a text into tokens, white space left out.

    :raises ConfigError: if a quote or bracket does not close, or a comment, a ``;``, a query parameter or a
        character is found that ClickHouse may read in another way.
    """
    tokens: list[Token] = []
    waiting: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, found = str(match.lastgroup), match.group()
        if kind == "close" and (not waiting or waiting.pop() != found):
            raise refuse(text, f"has an unmatched {found!r}")
        if problem := _problem(kind, found):
            raise refuse(text, problem)
        if kind != "space":
            written = found.lower() if kind == "word" else found
            tokens.append(Token(TokenKind(kind), written, len(waiting), match.start()))
        if kind == "open":
            waiting.append(_CLOSING[found])
    if waiting:
        raise refuse(text, f"lacks a closing {waiting[-1]!r}")
    return tuple(tokens)


def refuse(text: str, problem: str, remedy: str = "write one flat SQL expression") -> ConfigError:
    """The error of an expression: shows it, says what is wrong with it, and what to write instead."""
    return ConfigError(f"the expression {text!r} {problem}; {remedy}")


def split_at_commas(tokens: Sequence[Token], depth: int = 0) -> list[Sequence[Token]]:
    """The elements of a list whose commas stand at the given depth."""
    commas = [n for n, token in enumerate(tokens) if token.kind is TokenKind.COMMA and token.depth == depth]
    return [tokens[start + 1 : end] for start, end in zip([-1, *commas], [*commas, len(tokens)], strict=True)]


def _problem(kind: str, found: str) -> str:
    match kind:
        case "quote":
            return f"has an unclosed {found}"
        case "foreign":
            code = f"U+{ord(found):04X} {unicodedata.name(found, '')}".rstrip()
            return f"holds {found!r} ({code}) outside of quotes"
        case "placeholder":
            # the load's own parameters hold secrets
            return "holds a query parameter"
        case "comment":
            return "holds a comment"
        case "semicolon":
            return "holds a ';'"
    return ""
