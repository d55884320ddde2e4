"""Globs in URLs: braces are the only wildcards, since an HTTP server does not list its files."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from urllib.parse import quote

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.globs import parse_span

MAX_URLS = 10_000
# What url() takes for a choice, an alternative or the next address; keys have these percent-encoded.
UNSAFE_IN_URL = re.compile(r"[^!-~]|[{}|,*?#]")
_BRACES = re.compile(r"(\{[^{}]*\})")
_NUMBERS = re.compile(r"\{\d+\.\.\d+\}", re.ASCII)
_LITERAL = "/%-._~!$&'()+:;=@"


def mask_url(text: str) -> str:
    """Hide what may be a secret in an address: login and password, and the query string."""
    text = re.sub(r"://[^/?#]*@|://[^?#]*(?<!/)@(?=[^/?#]*/)", "://***@", text)
    return re.sub(r"\?.*", "?…", text, flags=re.DOTALL)


def read_host(url: str) -> str:
    """Bring scheme and host into their usual form: in lower case, without a default port."""
    scheme, _, host = url.lower().partition("://")
    port = {"https": ":443", "http": ":80"}[scheme]
    return f"{scheme}://{host.removesuffix(port)}"


def read_url_glob(glob: str) -> str:
    """Bring a glob into the form in which a URL is requested: one name for each file, whatever may be encoded.

    :raises ConfigError: if the glob has other wildcards than braces, a query string, or what URLs leave open.
    """
    if "?" in glob:
        raise ConfigError(
            f"source has a query string in {mask_url(glob)!r}, which may hold a secret and would be logged; only"
            " files with public addresses can be loaded over HTTP: remove it, or percent-encode the ? (%3F) if it"
            " belongs to the file's name"
        )
    if "*" in glob:
        raise ConfigError(
            f"source has a * in {glob!r}, and HTTP servers do not list their files; name the files, or use"
            " {a,b} and {1..9}"
        )
    if re.search(r"%(?![0-9A-Fa-f]{2})", glob):
        raise ConfigError(f"source has a % in {glob!r} that encodes nothing; write it as %25")
    read = "".join(_read_part(part) for part in _BRACES.split(glob))
    if any(name in {".", ".."} for name in read.split("/")) or ".." in _NUMBERS.sub("", read):
        raise ConfigError(
            f"source has .. or a folder . in {glob!r}, which servers and ClickHouse understand differently; write the"
            " path that it stands for"
        )
    return read


def _read_part(part: str) -> str:
    if not part.startswith("{") or not part.endswith("}"):
        return _encode(part)
    return "{" + ",".join(map(_encode, part[1:-1].split(","))) + "}"


def _encode(text: str) -> str:
    """Encode what a URL cannot contain, in capitals, and decode what need not be encoded."""
    decoded = re.sub(r"%([0-9A-Fa-f]{2})", _decode, text)
    return quote(decoded, safe=_LITERAL)


def _decode(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if re.match(r"[A-Za-z0-9._~-]", character) else escape[0].upper()


def expand_url_globs(globs: Sequence[str]) -> list[str]:
    """List all keys that the globs name, sorted.

    :raises ConfigError: if they are more than ``MAX_URLS``.
    """
    names = [[_choices(part) for part in _BRACES.split(glob)] for glob in globs]
    count = sum(math.prod(map(len, parts)) for parts in names)
    if count > MAX_URLS:
        raise ConfigError(
            f"source names {count:,} files, and each of them takes a request to see whether it is there; name at most"
            f" {MAX_URLS:,}, and use one task for each part (dynamic task mapping does that)"
        )
    return sorted({"".join(chosen) for parts in names for chosen in itertools.product(*parts)})


def _choices(part: str) -> Sequence[str]:
    if not part.startswith("{") or not part.endswith("}"):
        return [part]
    span = parse_span(part[1:-1])
    if span is None:
        return part[1:-1].split(",")
    low, high, width = span
    return _Numbers(range(low, high + 1), width)


class _Numbers(Sequence[str]):
    """A range of numbers as text, which is not written out before it is known to be short enough."""

    def __init__(self, numbers: range, width: int) -> None:
        self.numbers = numbers
        self.width = width

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(self.numbers[index]).zfill(self.width)
