"""What a user may write as SQL: one flat expression that cannot end the statement around it."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql.expressions import find_names, parse_expression, split_expressions


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "`a b`",
        "a + 1 > 2 AND b != ''",
        "if(a = 'x, y', [1, 2], array(3))",
        "'it''s -- no comment; SELECT'",
        "'a\\'b;'",
        '"a""b;"',
        "`a``b;`",
        "format('{}-{}', a, b)",
        "FORMAT ('{}', a)",
        "selected + unions",
        "a - -1",
        "a / b",
        "tuple(1).1",
        "{'a': b, 1: c}['a']",
        "map('a', 1)['a']",
        "arrayMap(x -> x * 2, a)",
        "toDate(a, 'Europe/Berlin')",
        "'$5 \u2018quoted\u2019 \\\\'",
        "x'48'",
        "ä = 'ü'",
    ],
)
def test_one_flat_expression_is_taken_as_it_is(text: str) -> None:
    assert parse_expression(f"  {text}\n") == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "expected one SQL expression and found 0", id="empty"),
        pytest.param("  ", "expected one SQL expression and found 0", id="white-space"),
        pytest.param("a, b", "expected one SQL expression and found 2", id="two"),
        pytest.param("a,", "expected one SQL expression and found 1", id="comma-at-the-end"),
        pytest.param("a; DROP TABLE t", "holds a ';'", id="second-statement"),
        pytest.param("a -- x", "holds a comment", id="comment-sql"),
        pytest.param("a // x", "holds a comment", id="comment-slashes"),
        pytest.param("a # x", "holds a comment", id="comment-hash"),
        pytest.param("a #! x", "holds a comment", id="comment-shebang"),
        pytest.param("a /* x */", "holds a comment", id="comment-block"),
        pytest.param("a)", "has an unmatched ')'", id="closes-what-is-around"),
        pytest.param("a) FROM system.users WHERE (1", "has an unmatched ')'", id="closes-and-opens"),
        pytest.param("(a]", "has an unmatched ']'", id="other-bracket"),
        pytest.param("(a", "lacks a closing ')'", id="open-bracket"),
        pytest.param("f([a)", "has an unmatched ')'", id="crossed-brackets"),
        pytest.param("'a", "has an unclosed '", id="open-text"),
        pytest.param("'a\\'", "has an unclosed '", id="text-that-escapes-its-end"),
        pytest.param('"a', 'has an unclosed "', id="open-double-quote"),
        pytest.param("`a", "has an unclosed `", id="open-backquote"),
        pytest.param("{s3_secret_key:String}", "holds a query parameter", id="parameter"),
        pytest.param("concat('x', { `s3_secret_key` : String })", "holds a query parameter", id="parameter-quoted"),
        pytest.param('{"a":Identifier}', "holds a query parameter", id="parameter-double-quoted"),
        pytest.param("(SELECT 1)", "holds the keyword SELECT", id="subquery"),
        pytest.param("a IN (sElEcT 1)", "holds the keyword SELECT", id="subquery-mixed-case"),
        pytest.param("(SELECT(1))", "holds the keyword SELECT", id="subquery-like-a-call"),
        pytest.param("a UNION ALL b", "holds the keyword UNION", id="union"),
        pytest.param("1 SETTINGS max_threads = 1", "holds the keyword SETTINGS", id="settings"),
        pytest.param("1 FORMAT Null", "holds the keyword FORMAT", id="format"),
        pytest.param("$$'$$) -- '", "holds a $ outside of quotes", id="heredoc-hides-a-quote"),
        pytest.param("\u2018'\u2019) -- '", "holds a \u2018 outside of quotes", id="curly-quote-hides-a-quote"),
        pytest.param("\u201ca\u201d", "holds a \u201c outside of quotes", id="curly-double-quote"),
        pytest.param("a \\G", "holds a \\ outside of quotes", id="backslash-ends-a-statement"),
    ],
)
def test_what_is_not_flat_is_refused_and_shown(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_expression(text)
    assert why in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a, f(b, 'c,d')", ["a", "f(b, 'c,d')"], id="brackets-and-quotes"),
        pytest.param("[1, 2], {'a': 1, 'b': 2}", ["[1, 2]", "{'a': 1, 'b': 2}"], id="other-brackets"),
        pytest.param('`a,b` , "c,d"', ["`a,b`", '"c,d"'], id="quoted-names"),
        pytest.param("a,,b", ["a", "", "b"], id="empty-part"),
        pytest.param("", [""], id="nothing"),
    ],
)
def test_split_expressions(text: str, expected: list[str]) -> None:
    assert split_expressions(text) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("f(day) > `a b` AND t.n = 1", ["day", "a b", "AND", "t", "1"], id="not-functions-nor-parts"),
        pytest.param("s = 'now' OR \"user\" = now (  )", ["s", "OR", "user"], id="no-texts"),
        pytest.param("day < CURRENT_DATE", ["day", "CURRENT_DATE"], id="as-written"),
    ],
)
def test_names_that_are_not_called(text: str, names: list[str]) -> None:
    assert list(find_names(text)) == names
