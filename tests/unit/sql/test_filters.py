"""The filters are the only way for a value to enter SQL text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jinja2 import UndefinedError

from airflow_provider_ch_s3.clickhouse.statement import shorten_lines
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql import filters
from airflow_provider_ch_s3.sql.filters import Sql, UnquotedValueError, require_quoted
from airflow_provider_ch_s3.sql.render import render
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("a", "'a'", id="text"),
        pytest.param("it's", "'it\\'s'", id="quote"),
        pytest.param("a\\", "'a\\\\'", id="backslash-before-the-end"),
        pytest.param("\\'", "'\\\\\\''", id="escaped-quote"),
        pytest.param("a\nb\rc\td\0e", "'a\\nb\\rc\\td\\0e'", id="control-characters"),
        pytest.param('`"ü日', "'`\"ü日'", id="other-characters"),
        pytest.param("", "''", id="empty"),
        pytest.param(7, "7", id="whole-number"),
        pytest.param(-0.5, "-0.5", id="fraction"),
        pytest.param(True, "1", id="true"),
        pytest.param(False, "0", id="false"),
    ],
)
def test_literal(value: str | float, expected: str) -> None:
    assert filters.literal(value) == expected


@pytest.mark.parametrize("value", [None, [1], b"a", object])
def test_literal_refuses_other_types(value: object) -> None:
    with pytest.raises(UnquotedValueError, match="as an SQL literal"):
        filters.literal(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("a", "`a`", id="plain"),
        pytest.param("a.b c", "`a.b c`", id="dot-and-space"),
        pytest.param("a`; DROP", "`a\\`; DROP`", id="quote"),
        pytest.param("a\\", "`a\\\\`", id="backslash"),
        pytest.param("it's", "`it's`", id="other-quote"),
    ],
)
def test_identifier(name: str, expected: str) -> None:
    assert filters.identifier(name) == expected


def test_an_empty_identifier_is_refused() -> None:
    with pytest.raises(ConfigError, match=coded("name-invalid")):
        filters.identifier("")


def test_lists() -> None:
    assert filters.identifiers(["a", "b`c"]) == "`a`, `b\\`c`"
    assert filters.literals(["a", "b'c", 3]) == "'a', 'b\\'c', 3"


def test_table_name_quotes_both_parts() -> None:
    assert filters.table_name(TableName(database="it's", table="a`b.c")) == "`it's`.`a\\`b.c`"
    with pytest.raises(ConfigError, match=coded("name-invalid")):
        filters.table_name(TableName(database="", table="t"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("it's", '{"a": "it\'s"}', id="quote"),
        pytest.param('"}\n{"a": "b', '{"a": "\\"}\\n{\\"a\\": \\"b"}', id="ends-the-row"),
        pytest.param("a\\", '{"a": "a\\\\"}', id="backslash"),
        pytest.param("日\0", '{"a": "\\u65e5\\u0000"}', id="other-characters"),
    ],
)
def test_a_json_row_stays_one_row(text: str, expected: str) -> None:
    assert filters.json_rows([{"a": text}, {"a": 1}]) == f'{expected}\n{{"a": 1}}'


@pytest.mark.parametrize("name", ["max_threads", "_a1"])
def test_setting_name(name: str) -> None:
    assert filters.setting_name(name) == name


@pytest.mark.parametrize("name", ["", "1a", "a b", "a=1, b", "a`", "ä", "a\n"])
def test_a_wrong_setting_name(name: str) -> None:
    with pytest.raises(ConfigError, match=coded("setting-unknown")):
        filters.setting_name(name)


def test_parameter() -> None:
    assert filters.parameter("ch_s3_0f_secret_key") == "{ch_s3_0f_secret_key:String}"
    with pytest.raises(ConfigError, match=coded("name-invalid", "'a:b'")):
        filters.parameter("a:b")


def test_expression_is_checked() -> None:
    assert filters.expression(" a + 1 ") == "a + 1"
    with pytest.raises(ConfigError, match=coded("expression-invalid", "contains a ';'")):
        filters.expression("a;")


SAMPLES = {
    "literal": "a",
    "literals": ["a"],
    "identifier": "a",
    "identifiers": ["a"],
    "tuples": [("a", 1)],
    "is_among": ["a"],
    "folded_identifiers": ["a"],
    "assignments": {"a": 1},
    "parameter": "a",
    "expression": "a",
    "column_type": "Nullable(Int8)",
    "table_name": TableName(database="d", table="t"),
    "json_rows": [{"a": 1}],
}


@pytest.mark.parametrize("printed", filters.FILTERS)
def test_every_filter_returns_what_may_be_printed(printed: Callable[[Any], Sql]) -> None:
    assert isinstance(printed(SAMPLES[printed.__name__]), Sql)


def test_lists_of_several_literals() -> None:
    assert filters.tuples([("it's", 1), ("b", 2)]) == "('it\\'s', 1), ('b', 2)"
    assert filters.is_among(["it's"]) == "= 'it\\'s'"
    assert filters.is_among(["a", "b"]) == "IN ('a', 'b')"


def test_require_quoted() -> None:
    assert require_quoted(Sql("a")) == "a"
    for value in ("a", 1, None, ["a"]):
        with pytest.raises(UnquotedValueError, match=r"a template printed an unquoted \w+; pipe it through a filter"):
            require_quoted(value)


@pytest.mark.parametrize(
    ("template", "values"),
    [
        pytest.param("SELECT {{ x }}", {"x": "1; DROP TABLE t"}, id="text"),
        pytest.param("SELECT {{ x }}", {"x": 1}, id="number"),
        pytest.param("SELECT {{ x | upper }}", {"x": "a"}, id="another-filter"),
        pytest.param("SELECT {{ x | literal | upper }}", {"x": "a"}, id="changed-after-quoting"),
        pytest.param("SELECT {{ (x | literal) ~ y }}", {"x": "a", "y": "b"}, id="joined-after-quoting"),
    ],
)
def test_a_template_that_prints_a_bare_value_fails(template: str, values: dict[str, object]) -> None:
    with pytest.raises(UnquotedValueError):
        render("any", template, **values)


def test_a_template_without_its_value_fails() -> None:
    with pytest.raises(UndefinedError, match="'where' is undefined"):
        render("any", "SELECT 1{% if where %} WHERE {{ where | expression }}{% endif %}")
    with pytest.raises(UndefinedError, match="'table' is undefined"):
        render("read_table", cluster=None)


def test_the_text_of_a_short_statement_is_not_indented() -> None:
    text = """
        SELECT {{ x | literal }}
        WHERE
            1
    """
    assert render("any", text, x="a").text == "SELECT 'a'\nWHERE\n    1"


def test_long_lines_are_shortened_for_the_log() -> None:
    text = f"short\n{'a' * 100}{'b' * 200}{'c' * 100}"
    assert shorten_lines(text, limit=200) == f"short\n{'a' * 100} … 200 characters … {'c' * 100}"
    assert shorten_lines("a" * 300) == "a" * 300
