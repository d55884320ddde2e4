"""Globs: in object keys, as users write them and as ClickHouse expands them; in URLs, only braces are globs."""

from __future__ import annotations

import itertools
import math
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import quote

from airflow_provider_ch_s3.errors import ConfigError

# All characters that ClickHouse does not take literally in the path of an S3 address: globs, separators of a glob
# list, characters not escaped in the regex of a glob, characters that the URI parser rejects or rewrites, and the two
# colons between an archive and the path in the archive (seen on 26.7).
UNSAFE_IN_PATH = re.compile(r"[^A-Za-z0-9_\-./=@:&;()'~!]|\.\.|::")
# ClickHouse matches nothing for a star in braces, and cannot parse nested braces (seen on 26.7).
UNREADABLE_BRACES = re.compile(r"\{[^{}]*[*{]")
WILDCARD = re.compile(r"[*?{]")


def before_wildcards(glob: str) -> str:
    """The start of a glob, up to the first wildcard: all matches begin like this."""
    return WILDCARD.split(glob, maxsplit=1)[0]


def folder_of(key: str) -> str:
    """The folder of a key, with a slash; '' for the bucket itself."""
    return key[: key.rfind("/") + 1]


def begins_like(key: str, prefixes: Sequence[str]) -> bool:
    """Whether a key begins with one of many prefixes.

    :param prefixes: sorted, and none of them starts with another.
    """
    place = bisect_right(prefixes, key)
    return place > 0 and key.startswith(prefixes[place - 1])


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


def list_together(glob: str, starts: Iterable[str]) -> str:
    """Have ClickHouse list the matches of a glob of :func:`join_keys`, instead of asking the store for each key.

    ClickHouse lists if a glob has a wildcard besides choices. ``{7..7}`` is one, and matches only a 7. The listing
    has all keys that begin like the glob does before the first wildcard.

    :param starts: the listing may have keys with any of these beginnings.
    :returns: a glob of the same keys; '' if no digit can become the wildcard.
    """
    behind = re.search(r"\}[^0-9]*([0-9])", glob)
    before = None if behind else re.search(r"([0-9])[^0-9{]*\{", glob)
    digit = behind or before
    if digit is None or not glob[: digit.start(1)].partition("{")[0].startswith(tuple(starts)):
        return ""
    return f"{glob[: digit.start(1)]}{{{digit[1]}..{digit[1]}}}{glob[digit.end(1) :]}"


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


# What jobs write next to their data: names hidden by Hadoop, Hive and Spark, checksums, unfinished copies, and
# folders as objects. The name of a folder like _year=2024 is a value.
_HIDDEN_NAME = re.compile(r"(?:^|/)(\.[^/]*|_[^/=]*)(?=/|\Z)")
_NO_DATA_ENDINGS = ("/", ".crc", "._COPYING_", "_$folder$")


def leaves_out(glob: str, key: str) -> bool:
    """Whether a glob does not select an object although the glob matches the key, because the object holds no data.

    No data is in folders like ``_temporary/``, ``_delta_log/`` and ``.spark-staging-1/``, in files like ``_SUCCESS``,
    ``_committed_1`` and ``.a.crc``, and in folders as objects. ``_temporary/*`` and ``_*.csv`` name these objects,
    and select them; a glob without ``*`` and ``?`` selects whatever it names.
    """
    if not re.search(r"[*?]", glob):
        return False
    if any(key.endswith(ending) and not glob.endswith(ending) for ending in _NO_DATA_ENDINGS):
        return True
    hidden = _HIDDEN_NAME.findall(key)
    return bool(hidden) and not all(any(named.fullmatch(name) for named in _hidden_in(glob)) for name in hidden)


@lru_cache
def _hidden_in(glob: str) -> tuple[re.Pattern[str], ...]:
    """The parts of a glob for names with ``_`` or ``.`` at the beginning."""
    parts = (part for part in glob.split("/") if re.match(r"[_.]|\{(?:.*,)?[_.]", part))
    return tuple(re.compile(glob_regex(part)) for part in parts)


def parse_span(inner: str) -> tuple[int, int, int] | None:
    """Parse the inside of the braces of ``{1..9}``; None for anything else.

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
    """Match all numbers between two numbers of the same length, digit by digit: a range may hold millions."""
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


MAX_URLS = 10_000
# What url() takes for a choice, an alternative or the next address; keys have these percent-encoded.
UNSAFE_IN_URL = re.compile(r"[^!-~]|[{}|,*?#]")
_BRACES = re.compile(r"(\{[^{}]*\})")
_NUMBERS = re.compile(r"\{\d+\.\.\d+\}", re.ASCII)
_LITERAL = "/%-._~!$&'()+:;=@"


def mask_url(text: str) -> str:
    """Hide what may be a secret in an address: login and password, and the query string."""
    text = re.sub(r":(/+)[^/?#]*@|:(//)[^?#]*(?<!/)@(?=[^/?#]*/)", r":\1\2***@", text)
    return re.sub(r"\?.*", "?…", text, flags=re.DOTALL)


def mask_malformed(text: str) -> str:
    """Hide what may be a secret in a text meant as an address: all before the last @, however written."""
    text = re.sub(r"^(\s*[A-Za-z][A-Za-z0-9+.-]*\s*:[/\\\s]*)?.*(?:@|%40)", r"\1***@", text, flags=re.DOTALL)
    return re.sub(r"([?#]).*", r"\1…", text, flags=re.DOTALL)


def read_host(url: str) -> str:
    """Turn scheme and host into their usual form: in lower case, without a default port."""
    scheme, _, host = url.lower().partition("://")
    port = {"https": ":443", "http": ":80"}[scheme]
    return f"{scheme}://{host.removesuffix(port)}"


def read_url_glob(glob: str) -> str:
    """Turn a glob into the form of a requested URL: a single name for each file, whatever is encoded.

    :raises ConfigError: if the glob has wildcards other than braces, a query string, or parts that URLs leave open.
    """
    if "?" in glob:
        raise ConfigError(
            "address-invalid",
            f"source has a query string in {mask_url(glob)!r}, which may hold a secret and would be logged; only"
            " files with public addresses can be loaded over HTTP: remove it, or percent-encode the ? (%3F) if it"
            " belongs to the file's name",
        )
    if "*" in glob:
        raise ConfigError(
            "address-invalid",
            f"source has a * in {glob!r}, and HTTP servers do not list their files; name the files, or use"
            " {a,b} and {1..9}",
        )
    if re.search(r"%(?![0-9A-Fa-f]{2})", glob):
        raise ConfigError("address-invalid", f"source has a % in {glob!r} that encodes nothing; write it as %25")
    read = "".join(_read_part(part) for part in _BRACES.split(glob))
    if any(name in {".", ".."} for name in read.split("/")) or ".." in _NUMBERS.sub("", read):
        raise ConfigError(
            "address-invalid",
            f"source has .. or a folder . in {glob!r}, which servers and ClickHouse understand differently; write the"
            " path that it stands for",
        )
    return read


def _read_part(part: str) -> str:
    if not part.startswith("{") or not part.endswith("}"):
        return _encode(part)
    return "{" + ",".join(map(_encode, part[1:-1].split(","))) + "}"


def _encode(text: str) -> str:
    """Encode, in capitals, what a URL cannot contain, and decode what need not be encoded."""
    decoded = re.sub(r"%([0-9A-Fa-f]{2})", _decode, text)
    return quote(decoded, safe=_LITERAL)


def _decode(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if re.match(r"[A-Za-z0-9._~-]", character) else escape[0].upper()


def expand_url_globs(globs: Sequence[str]) -> list[str]:
    """List all keys that the globs name, sorted.

    :raises ConfigError: if the keys are more than ``MAX_URLS``.
    """
    names = [[_choices(part) for part in _BRACES.split(glob)] for glob in globs]
    count = sum(math.prod(map(len, parts)) for parts in names)
    if count > MAX_URLS:
        raise ConfigError(
            "files-too-many",
            f"source names {count:,} files, and each of them takes a request to see whether it is there; name at most"
            f" {MAX_URLS:,}, and use one task for each part (dynamic task mapping does that)",
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
    """A range of numbers as text, not written out before its length is known to be short enough."""

    def __init__(self, numbers: range, width: int) -> None:
        self.numbers = numbers
        self.width = width

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(self.numbers[index]).zfill(self.width)
