"""What errors and the log show: no secret that this process has used, and nothing that a terminal would obey.

Texts come from elsewhere: a server may answer with the headers of the request, and a key may have any character. So
every error of this package, and every log line of this package, passes through :func:`showable`.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

MIN_SECRET_LENGTH = 8
"""Characters of the shortest secret to look for in every text: shorter secrets may stand in any text."""
MIN_SENT_LENGTH = 5
"""Characters of the shortest secret to look for in the answers of servers; the default of Airflow's own masker."""
MIN_CORE_LENGTH = 8
"""Fewer characters of base64 may stand in any text."""

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What ClickHouse writes for a character within quotes.
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})
# A login that this process was given by a server, or has computed for a single request.
_LOGINS = re.compile(
    r"(?i)(authorization[\"']?(?:\s*[:=]\s*|%3a(?:%20|\+)?)[\"']?(?:basic|bearer|sharedkey|token)(?:\s+|%20|\+))"
    r"[^\s\"'<>&,;\\]+"
)
_SIGNATURES = re.compile(r"(?i)(\b(?:x-amz-|x-goog-)?signature|[?&;]sig)(=|%3d)[\w%+/=-]{8,}")
_SECRET_NAMES = re.compile(
    r"(?i)passw|passphrase|secret|private|token$|credential|connection.?string|authorization|external.?id|key.?json"
    r"|(?<!access.)key$|shared.access.key$"
)
# What is secret of a connection string, and of a signed query string.
_KEYS = re.compile(r"(?i)(?:^|;)\s*(?:AccountKey|SharedAccessSignature)=([^;]+)")
_SIGNATURE = re.compile(r"(?i)(?:^|[?&;=])sig=([^&;]+)")
_URL_LOGIN = re.compile(r"://[^/?#@:]*:([^/?#@]+)@")
_kept: set[str] = set()


def keep_secret(*secrets: str) -> None:
    """Have no error and no line of the log show these values, from now on and in whatever form."""
    found = {part for secret in secrets for part in (secret, *_KEYS.findall(secret), *_SIGNATURE.findall(secret))}
    _kept.update(one for part in found for one in (part, unquote(part)) if len(one) >= MIN_SECRET_LENGTH)


def keep_connection(login: str | None, password: str | None, extra: Mapping[str, Any]) -> None:
    """Keep the login of a connection secret: the password, and values of the extra under the name of a secret."""
    keep_secret(password or "", f"{login or ''}:{password}" if password else "", *_find_secrets(extra))


def _find_secrets(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from _find_secrets(one, str(inner))
    elif isinstance(value, list):
        for one in value:
            yield from _find_secrets(one, name)
    elif isinstance(value, str):
        yield from _URL_LOGIN.findall(value)
        if _SECRET_NAMES.search(name):
            yield value


def showable(text: str) -> str:
    """Return a text without kept secrets, logins of requests, and control characters."""
    text = scrub(text, tuple(_kept))
    text = _LOGINS.sub(r"\1***", text)
    return without_controls(_SIGNATURES.sub(r"\1\2***", text))


def without_controls(text: str) -> str:
    """Escape what a terminal or the reader of a log would obey instead of showing: ESC becomes ``\\x1b``.

    Line breaks and tabs stay.
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret in a text by ``***``, however written: quoted, encoded, or in lower case.

    A secret of fewer than ``MIN_SENT_LENGTH`` characters stays: the text would hardly have a letter left.
    """
    known = [secret for secret in secrets if len(secret) >= MIN_SENT_LENGTH]
    folded = text.casefold()
    written = {form for secret in known for form in _written_forms(secret) if form.casefold() in folded}
    for form in sorted(written, key=len, reverse=True):
        text = re.sub(re.escape(form), "***", text, flags=re.IGNORECASE)
    for core in {core for secret in known for core in _base64_cores(secret) if core in text}:
        text = re.sub(rf"[\w+/-]*{re.escape(core)}[\w+/-]*=*", "***", text)
    return text


@lru_cache(maxsize=256)
def _written_forms(secret: str) -> tuple[str, ...]:
    one_line = " ".join(secret.split())  # the form in a cleaned message
    in_url = (quote(secret), quote(secret, safe=""), quote_plus(secret), quote(quote(secret, safe=""), safe=""))
    in_json = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    as_bytes = secret.encode(errors="surrogatepass")
    in_python = (repr(secret)[1:-1], repr(as_bytes)[2:-1])
    quoted = (secret.translate(_ESCAPES), html.escape(secret), *in_python, *in_json, *in_url)
    slashes = tuple(form.replace("/", "\\/") for form in in_json)
    encoded = (as_bytes.hex(), base64.b64encode(as_bytes).decode(), base64.urlsafe_b64encode(as_bytes).decode())
    percents = "".join(f"%{byte:02x}" for byte in as_bytes)
    return secret, one_line, *quoted, *slashes, percents, *encoded, *(form.rstrip("=") for form in encoded)


@lru_cache(maxsize=256)
def _base64_cores(secret: str) -> tuple[str, ...]:
    """The parts that the base64 of any text with a secret in it contains, like the login in a header of a request.

    Three bytes become four characters, so there is a part for each of three places at which the secret may begin. The
    characters at the ends of the secret depend on the text around the secret.
    """
    cores = []
    for before in range(3):
        padded = b"\0" * before + secret.encode(errors="surrogatepass")
        whole = padded[: len(padded) // 3 * 3]
        cores += [encode(whole).decode()[4 if before else 0 :] for encode in _BASE64]
    return tuple(core for core in cores if len(core) >= MIN_CORE_LENGTH)


_BASE64 = (base64.b64encode, base64.urlsafe_b64encode)


FOLDED = "ch_s3_is_folded"
"""Attribute of the records that Airflow's UI shows after a click only."""
FACTS_BEGIN = " [ch-s3 "
"""Between the part of a log line for people, and the facts for the pages."""
_GROUP = "::group::"


def without_facts(line: str) -> str:
    """Return the part of a log line for people."""
    return line.rpartition(FACTS_BEGIN)[0] if line.endswith("}]") and FACTS_BEGIN in line else line


_is_command = False


@contextmanager
def log_of_command() -> Iterator[None]:
    """Have the log show no facts, and nothing that Airflow's UI folds: a command runs."""
    global _is_command
    before, _is_command = _is_command, True
    try:
        yield
    finally:
        _is_command = before


def is_in_terminal() -> bool:
    """Whether a command of ``ch-s3``, or `airflow dags test`, runs.

    A terminal shows the log, which folds nothing, and no page reads.
    """
    if _is_command:
        return True
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    supervisor = sys.modules.get("airflow.sdk.execution_time.supervisor")
    in_process = getattr(supervisor, "InProcessSupervisorComms", None)
    return in_process is not None and isinstance(getattr(runner, "SUPERVISOR_COMMS", None), in_process)


class _Showable(logging.Filter):
    """Makes a record showable, with the stack trace of the exception: the causes may quote anything."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = said = record.getMessage()
        if is_in_terminal():
            is_group = text.startswith(_GROUP)
            if getattr(record, FOLDED, False) or (is_group and _is_command):
                return False
            text = without_facts(text)
            if is_group:
                text = f"{text.removeprefix(_GROUP)}: in Airflow's UI"
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if (shown := showable(text)) != said:
            record.msg, record.args, record.exc_info = shown, (), None
        return True


_SHOWABLE = _Showable()


def get_log(name: str) -> logging.Logger:
    """Return the log of a module; every module of this package takes the log from here."""
    log = logging.getLogger(name)
    log.addFilter(_SHOWABLE)
    return log
