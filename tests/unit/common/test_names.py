"""Names from outside, as messages show them."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.common.text import fold_name, show_name
from airflow_provider_ch_s3.table.target import TableName, parse_table


@pytest.mark.parametrize("name", ["id", "tail num", "it's", "grüße-日本-🦆", "a.b", "s3://b/{a,b}*"])
def test_what_can_be_seen_stays_as_it_is(name: str) -> None:
    assert show_name(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("\ufeffid", r"'\ufeffid'", id="byte-order-mark"),
        pytest.param("id ", "'id '", id="space-at-the-end"),
        pytest.param(" id", "' id'", id="space-at-the-start"),
        pytest.param("i\u200bd", r"'i\u200bd'", id="zero-width-space"),
        pytest.param("i\u200dd", r"'i\u200dd'", id="zero-width-joiner"),
        pytest.param("a\xa0b", r"'a\xa0b'", id="no-break-space"),
        pytest.param("a\tb\n", r"'a\tb\n'", id="tab-and-line-end"),
        pytest.param("\u202eabc", r"'\u202eabc'", id="right-to-left"),
        pytest.param("a\u3164", r"'a\u3164'", id="letter-drawn-as-nothing"),
        pytest.param("a\ufe0f", r"'a\ufe0f'", id="variation-selector"),
        pytest.param("a\ud800", r"'a\ud800'", id="half-of-a-pair"),
        pytest.param("", "''", id="empty"),
    ],
)
def test_what_cannot_be_seen_is_shown(name: str, shown: str) -> None:
    assert show_name(name) == shown


def test_a_table_with_dots_in_its_name_is_shown_as_it_is_written() -> None:
    table = TableName(database="my.db", table="t")
    assert str(table) == "`my.db`.t"
    assert parse_table(str(table), "default") == table
    assert str(TableName(database="d", table="t\u200b")) == r"d.'t\u200b'"


@pytest.mark.parametrize(
    ("name", "other", "are_alike"),
    [
        pytest.param("First Name", "first_name", True, id="blanks-and-capitals"),
        pytest.param("STRASSE-Nr.", "straße nr", True, id="signs"),
        pytest.param("#id", "id", False, id="comment"),
        pytest.param("2024-01-01", "20240101", False, id="numbers"),
        pytest.param("-1", "1", False, id="negative"),
        pytest.param("?", "+", False, id="signs-alone"),
        pytest.param("ปี", "ปู", False, id="vowels-of-thai"),
    ],
)
def test_names_that_are_alike(name: str, other: str, are_alike: bool) -> None:
    assert (fold_name(name) == fold_name(other)) == are_alike
