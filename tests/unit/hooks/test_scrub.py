"""A secret is found in a text however it is written there."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest

from airflow_provider_ch_s3.hooks.driver_errors import scrub

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


@pytest.mark.parametrize("login", ["a", "me", "you"])
def test_a_short_password_is_found_in_the_header_with_its_login(login: str) -> None:
    header = f"Authorization: Basic {b64(f'{login}:pw')}"
    assert scrub(header, ["pw", f"{login}:pw"]) == "Authorization: Basic ***"


def test_other_words_stay() -> None:
    text = "Code: 497. DB::Exception: loader: Not enough privileges, aGVsbG8="
    assert scrub(text, [SECRET, "loader:pw", ""]) == text
