"""A secret is found in a text however it is written there; errors and the log show none, nor control characters."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, quote_plus

import pytest

import airflow_provider_ch_s3
import ch_s3_lab
from airflow_provider_ch_s3.common.text import with_facts
from airflow_provider_ch_s3.common.work import log_folded
from airflow_provider_ch_s3.discretion import (
    get_log,
    keep_connection,
    keep_secret,
    log_of_command,
    scrub,
    showable,
)
from airflow_provider_ch_s3.errors import ConfigError, SourceError

SECRET = "p\u00e4ss/w\u00f6rd+'1\"& =\\2"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        SECRET.upper(),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote_plus(SECRET),
        quote(quote(SECRET, safe=""), safe=""),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(SECRET).replace("/", "\\/"),
        html.escape(SECRET),
        repr(SECRET),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        b64(SECRET),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
        *(f"Basic {b64(f'{login}:{SECRET}')}" for login in ("a", "me", "you", "them", "l\u00f6ader")),
        b64(f"user=me&password={SECRET}&more=1"),
    ],
)
def test_a_secret_is_found_in_every_form(written: str) -> None:
    said = scrub(f"the proxy said: {written} (400)", [SECRET])
    assert "***" in said
    for part in ("ss/w", "w\u00f6rd", b64(SECRET)[4:12], SECRET.encode().hex()[8:20]):
        assert part.lower() not in said.lower()
    assert said.startswith("the proxy said: ")
    assert said.endswith(" (400)")


@pytest.mark.parametrize("login", ["ab", "me", "you"])
def test_a_short_password_is_found_in_the_header_with_its_login(login: str) -> None:
    header = f"Authorization: Basic {b64(f'{login}:pw')}"
    assert scrub(header, ["pw", f"{login}:pw"]) == "Authorization: Basic ***"


@pytest.mark.parametrize("secret", ["e", "pw", "load"])
def test_a_password_of_few_letters_leaves_the_message_readable(secret: str) -> None:
    text = "Code: 516. DB::Exception: loader: Authentication failed: password is incorrect"
    assert scrub(text, [secret, f"loader:{secret}"]) == text
    assert scrub("loader:load", ["load", "loader:load"]) == "***"


def test_other_words_stay() -> None:
    text = "Code: 497. DB::Exception: loader: Not enough privileges, aGVsbG8="
    assert scrub(text, [SECRET, "loader:pw", ""]) == text


def test_errors_show_no_secret_that_is_kept() -> None:
    keep_secret("l0ng-enough", "short")
    error = ConfigError("a-code", "no l0ng-enough, bDBuZy1lbm91Z2g= and short\x1b[31m")
    assert str(error) == "no ***, *** and short\\x1b[31m [a-code]"


def test_a_log_shows_none_either(caplog: pytest.LogCaptureFixture) -> None:
    """Nor do stack traces, whose causes nobody has looked through; ids of DAGs may have control characters."""
    log = get_log("airflow_provider_ch_s3.tests")
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="airflow_provider_ch_s3")
    keep_secret("l0ng-enough")
    log.info("%s of %s: %d", "load\x1b]0;x\x07", "l0ng-enough", 5)
    try:
        try:
            raise ValueError("the cause has l0ng-enough")
        except ValueError as error:
            raise SourceError("a-code", "of ours") from error
    except SourceError as error:
        log.debug("%s", error, exc_info=True)
    log.info("a line\nand the next, %s", "as it is")
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0] == "load\\x1b]0;x\\x07 of ***: 5"
    assert "ValueError: the cause has ***" in texts[1]
    assert texts[1].endswith("SourceError: of ours [a-code]")
    assert texts[2] == "a line\nand the next, as it is"
    assert "l0ng-enough" not in caplog.text


def test_no_module_takes_its_log_from_elsewhere() -> None:
    bare = {
        f"{path.relative_to(root)}: {line.strip()}"
        for root in (Path(airflow_provider_ch_s3.__file__).parent, Path(ch_s3_lab.__file__).parent)
        for path in root.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"logging\.getLogger|self\.log\.(debug|info|warning|error)", line)
    }
    others = ("setLevel", "discretion.py", "logging.getLogger(name)", "sandbox/supervisor.py")
    assert [line for line in sorted(bare) if not any(known in line for known in others)] == []


def test_what_is_secret_of_a_connection() -> None:
    keep_connection(
        "client",
        "p4ssword",
        {
            "aws_access_key_id": "AKIDNOSECRET",
            "aws_session_token": "t0ken-of-aws",
            "assume_role_kwargs": {"ExternalId": "external-1"},
            "uri": "postgresql://me:dbpass-1@db/catalog",
            "connection_string": "AccountName=acc;AccountKey=a2V5LWtleQ==;BlobEndpoint=https://host.example",
            "sas_token": "sv=2024&sig=c2lnbmVk%2Fx%3D%3D",
            "region_name": "us-east-1",
        },
    )
    said = showable(
        "AKIDNOSECRET p4ssword Y2xpZW50OnA0c3N3b3Jk t0ken-of-aws external-1 dbpass-1 a2V5LWtleQ== c2lnbmVk/x=="
        " us-east-1 host.example"
    )
    assert said == "AKIDNOSECRET *** *** *** *** *** *** *** us-east-1 host.example"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Authorization: Bearer abc.def\nHost: h", "Authorization: Bearer ***\nHost: h"),
        ('{"authorization":"Basic bWU6cHc=","a":1}', '{"authorization":"Basic ***","a":1}'),
        ("Authorization: SharedKey acc:c2ln+x=", "Authorization: SharedKey ***"),
        ("SignedHeaders=host, Signature=0123456789abcdef", "SignedHeaders=host, Signature=***"),
        ("/k?X-Amz-Signature=0123456789abcdef&a=b", "/k?X-Amz-Signature=***&a=b"),
        ("/k?sv=2024&sig=abcd%2Befgh%3D", "/k?sv=2024&sig=***"),
        ("The request signature we calculated does not match", "The request signature we calculated does not match"),
        ("basic authorization failed: token expired", "basic authorization failed: token expired"),
    ],
)
def test_logins_of_single_requests(said: str, shown: str) -> None:
    assert showable(said) == shown


class InProcess:
    """What a task of `airflow dags test` talks to, as Airflow names it."""


SEEN_BY_PAGES = ['480 rows [ch-s3 {"rows": 480}]', "::group::the SQL", "SELECT 1", "::endgroup::"]
SEEN_IN_A_TERMINAL = ["480 rows", "the SQL: in Airflow's UI"]


@pytest.mark.parametrize(
    ("comms", "lines"),
    [
        pytest.param(InProcess(), SEEN_IN_A_TERMINAL, id="dags-test"),
        pytest.param(object(), SEEN_BY_PAGES, id="a-worker"),
        pytest.param(None, SEEN_BY_PAGES, id="neither"),
    ],
)
def test_a_terminal_gets_no_facts_and_nothing_folded(
    comms: object, lines: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = "airflow.sdk.execution_time"
    monkeypatch.setitem(sys.modules, f"{package}.supervisor", SimpleNamespace(InProcessSupervisorComms=InProcess))
    monkeypatch.setitem(sys.modules, f"{package}.task_runner", SimpleNamespace(SUPERVISOR_COMMS=comms))
    assert say(caplog) == lines


def say(caplog: pytest.LogCaptureFixture) -> list[str]:
    log = get_log("airflow_provider_ch_s3.tests.terminal")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        log.info("%s", with_facts("480 rows", {"rows": 480}))
        log_folded(log, "the SQL", "SELECT 1")
    return caplog.messages


def test_the_log_of_a_command_has_no_facts_and_nothing_folded(caplog: pytest.LogCaptureFixture) -> None:
    with log_of_command():
        assert say(caplog) == ["480 rows"]
    assert say(caplog) == SEEN_BY_PAGES
