"""Delimiters that are guessed, and what a dialect means for ClickHouse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.data_format import DATA_FORMAT, Csv, Format, guess_delimiter
from tests.failures import coded


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(["a;b;c", "1;2;3"], ";", id="semicolons"),
        pytest.param(["a\tb", "1\t2"], "\t", id="tabs"),
        pytest.param(["a|b", "1,5|2"], "|", id="bars"),
        pytest.param(["a;b", '"x;y";2'], ";", id="quoted"),
        pytest.param(["a;b|c|d", "1;2|3|4"], "|", id="more-of-the-other"),
        pytest.param(["a;b", "1;2;3"], "", id="not-the-same-in-all-lines"),
        pytest.param(["a", "b"], "", id="one-column"),
        pytest.param(["a;b", "", "1;2"], ";", id="empty-line"),
        pytest.param([], "", id="nothing"),
    ],
)
def test_guess(lines: Sequence[str], expected: str) -> None:
    assert guess_delimiter(lines) == expected


@pytest.mark.parametrize(
    ("dialect", "settings", "data_format"),
    [
        pytest.param(Csv(), {}, None, id="none"),
        pytest.param(Csv(delimiter=","), {}, None, id="comma"),
        pytest.param(Csv(delimiter=";"), {"format_csv_delimiter": ";"}, None, id="semicolon"),
        pytest.param(
            Csv(delimiter="\t"),
            {"format_csv_delimiter": "\t", "input_format_csv_allow_whitespace_or_tab_as_delimiter": 1},
            None,
            id="tab",
        ),
        pytest.param(
            Csv(delimiter=" "),
            {"format_csv_delimiter": " ", "input_format_csv_allow_whitespace_or_tab_as_delimiter": 1},
            None,
            id="blank",
        ),
        pytest.param(
            Csv(quote="'", skip_lines=2, header=True),
            {
                "format_csv_allow_double_quotes": 0,
                "format_csv_allow_single_quotes": 1,
                "input_format_csv_skip_first_lines": 2,
            },
            "CSVWithNames",
            id="quote-and-header",
        ),
        pytest.param(
            Csv(quote="", header=False),
            {"format_csv_allow_double_quotes": 0, "input_format_csv_detect_header": 0},
            "CSV",
            id="no-quote-no-header",
        ),
    ],
)
def test_settings(dialect: Csv, settings: dict[str, object], data_format: str | None) -> None:
    assert dialect.settings == settings
    assert dialect.format == data_format


@pytest.mark.parametrize(
    ("encoding", "is_utf8"), [("utf-8", True), ("UTF8", True), ("ascii", True), ("latin-1", False), ("cp1252", False)]
)
def test_encodings(encoding: str, is_utf8: bool) -> None:
    assert Csv(encoding=encoding).is_utf8 is is_utf8


def test_a_mapping_is_a_dialect() -> None:
    assert DATA_FORMAT.parse("data_format", {"csv": {"delimiter": ";"}}) == Csv(delimiter=";")
    assert DATA_FORMAT.parse("data_format", "CSV") == Format("CSV")


def test_lines_with_escapes_are_taken_apart_by_a_regular_expression() -> None:
    settings = Csv(escape="\\").line_settings(";", 2)
    found = re.fullmatch(str(settings["format_regexp"]), '1;"a;\\"b"')
    assert found is not None
    assert found.groups() == ("1", '"a;\\"b"')
    assert re.fullmatch(str(settings["format_regexp"]), "1;2;3") is None
    assert re.fullmatch(str(settings["format_regexp"]), '1;"a" b') is None
    assert settings["format_regexp_escaping_rule"] == "Raw"


@pytest.mark.parametrize(
    "given",
    [
        {"escape": "^"},
        {"escape": "\\", "quote": "'"},
        {"escape": "\\", "skip_lines": 1},
        {"escape": "\\", "trim": True},
    ],
)
def test_escapes_that_cannot_be_read(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=coded("argument-invalid", "data_format", "escape")):
        DATA_FORMAT.parse("data_format", Csv(**given))
