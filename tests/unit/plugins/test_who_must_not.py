"""The pages, asked by those who must not learn or do more: a viewer of another team, and whoever wrote an XCom."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.plugins import ledger_access
from airflow_provider_ch_s3.plugins.pages import guarded
from airflow_provider_ch_s3.reporting.view import parse_place
from tests.failures import coded
from tests.unit.plugins.conftest import Scripts


@pytest.mark.parametrize("team", [None, "finance"])
@pytest.mark.parametrize("may_read", [False, True])
def test_a_connection_of_a_team_is_for_those_who_may_read_it(
    monkeypatch: pytest.MonkeyPatch, team: str | None, may_read: bool
) -> None:
    """Every connection of this test has been used by a load."""
    manager = SimpleNamespace(is_authorized_connection=lambda **_: may_read)
    monkeypatch.setattr(ledger_access, "get_auth_manager", lambda: manager)
    monkeypatch.setattr(ledger_access, "_is_used", lambda _: True)
    monkeypatch.setattr(ledger_access, "conf", SimpleNamespace(getboolean=lambda *_, **__: True))
    monkeypatch.setattr(ledger_access, "Connection", SimpleNamespace(get_team_name=lambda _: team))
    sees = ledger_access.may_see("ch", SimpleNamespace())  # type: ignore[arg-type]
    assert sees == (may_read or team is None)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", " https://h", 7]
)
def test_a_link_from_an_xcom_runs_no_script(scripts: Scripts, address: object) -> None:
    assert "<a " not in show_header(scripts, {"ClickHouse": address})


def test_a_link_to_a_page_is_shown(scripts: Scripts) -> None:
    assert 'href="https://ch/play"' in show_header(scripts, {"ClickHouse": "https://ch/play"})


def show_header(scripts: Scripts, links: Mapping[str, object]) -> str:
    load = {"state": "success", "fields": {"table": "t"}, "report": None, "links": links}
    return str(scripts.call("header.js", "Header", {"load": load}))


@pytest.mark.parametrize(
    "text",
    [
        '[1.0, "\\ud800", 1]',
        f'[1.0, "a", {"9" * 400}]',
        f'[1.0, "a", {"9" * 5000}]',
        '[1.0, "a", -1]',
        '[1e999, "a", 1]',
        "[" * 5000,
        "\x00",
    ],
)
def test_what_is_no_place_in_the_history(text: str) -> None:
    with pytest.raises(ConfigError, match=coded("argument-invalid", "page token")):
        parse_place(text, (float, str, int))


def test_a_place_in_the_history() -> None:
    assert parse_place(json.dumps([1.5, "ch-s3-a", 2**63]), (float, str, int)) == (1.5, "ch-s3-a", 2**63)


async def answer_plainly(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 401, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b"no"})


def test_every_answer_is_taken_for_what_it_says_it_is() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(answer_plainly({}, None, guarded(send)))
    headers = dict(sent[0]["headers"])
    assert headers[b"a"] == b"b"
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"content-security-policy"].startswith(b"default-src 'none'")
    assert sent[1] == {"type": "http.response.body", "body": b"no"}
