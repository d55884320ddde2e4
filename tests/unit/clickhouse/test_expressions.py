"""What a user may write as SQL: one flat expression that cannot end the statement around it."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.clickhouse.expressions import (
    calls,
    find_called_by_name,
    find_counted,
    find_names,
    find_renamed,
    find_server_bound,
    parse_expression,
    replace_calls,
    split_comparison,
    split_expressions,
)
from airflow_provider_ch_s3.errors import ConfigError
from tests.failures import coded


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
        "'a\u200b\u00a0' = `b\ufeff`",
        "offset + 1",
        "limit",
        "a AND order.x > 5",
        "CASE WHEN limit THEN a ELSE offset END",
        "format = 'x'",
        "settings['a'] + values",
        "limit NOT IN (1)",
        "EXTRACT(YEAR FROM d)",
        "trim(BOTH ' ' FROM s)",
        "a IS NOT DISTINCT FROM b",
        "a IS DISTINCT FROM b",
        "now() - INTERVAL 1 DAY",
        "CAST(a AS String)",
        "f(cast(a AS Nullable(String)), 1)",
        "a::UInt8",
        "x IN (1, 2)",
        "x NOT IN ('a')",
        "x IN [1]",
        "x IN (NULL)",
        "x IN (lower(a), lower(b))",
        "x IN tuple(1)",
        "x IN (a + 1)",
        "(a, b) IN ((1, 2), (3, 4))",
        "t.in + 1",
        "dictGet('d', 'a', id)",
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
        pytest.param("a; DROP TABLE t", "contains a ';'", id="second-statement"),
        pytest.param("a -- x", "contains a comment", id="comment-sql"),
        pytest.param("a // x", "contains a comment", id="comment-slashes"),
        pytest.param("a # x", "contains a comment", id="comment-hash"),
        pytest.param("a #! x", "contains a comment", id="comment-shebang"),
        pytest.param("a /* x */", "contains a comment", id="comment-block"),
        pytest.param("a)", "has an unmatched ')'", id="closes-what-is-around"),
        pytest.param("a) FROM system.users WHERE (1", "has an unmatched ')'", id="closes-and-opens"),
        pytest.param("(a]", "has an unmatched ']'", id="other-bracket"),
        pytest.param("(a", "lacks a closing ')'", id="open-bracket"),
        pytest.param("f([a)", "has an unmatched ')'", id="crossed-brackets"),
        pytest.param("'a", "has an unclosed '", id="open-text"),
        pytest.param("'a\\'", "has an unclosed '", id="text-that-escapes-its-end"),
        pytest.param('"a', 'has an unclosed "', id="open-double-quote"),
        pytest.param("`a", "has an unclosed `", id="open-backquote"),
        pytest.param("{s3_secret_key:String}", "contains a query parameter", id="parameter"),
        pytest.param(
            "concat('x', { `s3_secret_key` : String })", "contains a query parameter", id="parameter-quoted"
        ),
        pytest.param('{"a":Identifier}', "contains a query parameter", id="parameter-double-quoted"),
        pytest.param("(SELECT 1)", "contains the keyword SELECT", id="subquery"),
        pytest.param("a IN (sElEcT 1)", "contains the keyword SELECT", id="subquery-mixed-case"),
        pytest.param("(SELECT(1))", "contains the keyword SELECT", id="subquery-like-a-call"),
        pytest.param("a UNION ALL b", "contains the keyword UNION", id="union"),
        pytest.param("1 SETTINGS max_threads = 1", "contains the keyword SETTINGS", id="settings"),
        pytest.param("1 FORMAT Null", "contains the keyword FORMAT", id="format"),
        pytest.param(
            "$$'$$) -- '", "contains '$' (U+0024 DOLLAR SIGN) outside of quotes", id="heredoc-hides-a-quote"
        ),
        pytest.param(
            "\u2018'\u2019) -- '",
            "contains '\u2018' (U+2018 LEFT SINGLE QUOTATION MARK) outside of quotes",
            id="curly-quote-hides-a-quote",
        ),
        pytest.param(
            "\u201ca\u201d",
            "contains '\u201c' (U+201C LEFT DOUBLE QUOTATION MARK) outside of quotes",
            id="curly-double-quote",
        ),
        pytest.param(
            "a \\G", "contains '\\\\' (U+005C REVERSE SOLIDUS) outside of quotes", id="backslash-ends-a-statement"
        ),
    ],
)
def test_what_is_not_flat_is_refused_and_shown(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_expression(text)
    assert why in caught.value.sentence
    assert repr(text) in caught.value.sentence


# Every character that ClickHouse 26.7 skips as white space, but for space, tab and the ends of lines.
SKIPPED_BY_CLICKHOUSE = (
    "\x0b\x0c\x85\xa0\u180e\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u200c\u200d\u2028"
    "\u2029\u202f\u205f\u2060\u3000\ufeff"
)


@pytest.mark.parametrize("character", SKIPPED_BY_CLICKHOUSE)
@pytest.mark.parametrize("form", ["{{{}s3_secret_key:String}}", "{{s3_secret_key{}:String}}", "a{}+ 1", "{}a"])
def test_white_space_that_hides_a_parameter_is_refused(form: str, character: str) -> None:
    with pytest.raises(ConfigError, match=coded("expression-invalid", f"(U+{ord(character):04X}")):
        parse_expression(form.format(character))


@pytest.mark.parametrize(
    ("text", "keyword"),
    [
        ("a LIMIT 1", "LIMIT"),
        ("mod limit 1", "LIMIT"),
        ("a IS NULL LIMIT (1)", "LIMIT"),
        ("LIMIT 1", "LIMIT"),
        ("a OFFSET 1", "OFFSET"),
        ("a FETCH FIRST ROW ONLY", "FETCH"),
        ("a GROUP BY b", "GROUP"),
        ("a ORDER BY b", "ORDER"),
        ("ORDER BY b", "ORDER"),
        ("a HAVING b", "HAVING"),
        ("a INTO OUTFILE '/tmp/x'", "INTO"),
        ("WITH 1 AS x", "WITH"),
        ("a WITH TOTALS", "WITH"),
        ("a QUALIFY b", "QUALIFY"),
        ("a WINDOW w AS ()", "WINDOW"),
        ("a FROM t", "FROM"),
        ("a + distinct FROM t", "FROM"),
        ("a FINAL", "FINAL"),
        ("a SAMPLE 1", "SAMPLE"),
        ("a JOIN t", "JOIN"),
        ("a ARRAY JOIN b", "JOIN"),
        ("a PREWHERE b", "PREWHERE"),
        ("a WHERE b", "WHERE"),
        ("a EXCEPT b", "EXCEPT"),
        ("a INTERSECT b", "INTERSECT"),
        ("DISTINCT a", "DISTINCT"),
        ("distinct(a)", "DISTINCT"),
        ("TOP 1 a", "TOP"),
        ("(VALUES (1))", "VALUES"),
        ("(EXPLAIN CURRENT TRANSACTION)", "EXPLAIN"),
    ],
)
def test_a_clause_is_refused_by_its_name(text: str, keyword: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_expression(text)
    assert caught.value.sentence == (
        f"the expression {text!r} contains the keyword {keyword}; write one flat SQL expression; if this is a"
        " column's name, put it in back-quotes"
    )
    assert parse_expression(f"`{keyword}` + 1")


@pytest.mark.parametrize(
    "text",
    [
        "s IN t",
        "s IN d.t",
        "s in `d`.`t`",
        "s NOT IN t",
        "s GLOBAL IN t",
        "s IN (d.t)",
        "s IN ((d . t))",
        "s IN (t AS x)",
        "s IN (mod.t)",
        "s IN (null.t)",
        "in(s, d.t)",
        "NOT in (0, t)",
        "1. IN t",
        "arrayExists(x -> x IN t, a)",
    ],
)
def test_a_table_is_not_named_after_in(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_expression(text)
    assert caught.value.sentence == (
        f"the expression {text!r} has a name after IN; ClickHouse takes a name there for a table: list values in"
        " brackets, or write x = name for a column, has(name, x) for an array, position(text, part) for a part of a"
        " text"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("globalNotIn(s, t)", "calls globalNotIn(); write x IN (value, …)", id="function-in"),
        pytest.param("nullInIgnoreSet(s, t)", "calls nullInIgnoreSet(); write", id="function-in-of-many"),
        pytest.param("`in`(s, t)", "calls `in` by a quoted name", id="back-quotes"),
        pytest.param('"\\x69n" (s, t)', 'calls "\\x69n" by a quoted name', id="escapes"),
        pytest.param("joinGet('d.t', 'a', 1)", "calls joinGet(), which reads another table; use", id="join"),
        pytest.param("joinGetOrNull('d.t', 'a', 1)", "calls joinGetOrNull(), which reads", id="join-or-null"),
        pytest.param(
            "hasColumnInTable('h', 'd', 't', 'c')", "another table, even one on another server", id="remote"
        ),
        pytest.param("FILE('x')", "calls FILE(), which reads a file on the server", id="file"),
        pytest.param("COLUMNS('a')", "which stands for any number of columns; name one column", id="columns"),
        pytest.param("a + 1 AS b", "names a result with AS; leave the name out", id="alias"),
        pytest.param("(a + b AS c) * c", "names a result with AS; leave the name out", id="alias-in-brackets"),
        pytest.param("cast((1 AS b) AS String)", "names a result with AS", id="alias-in-a-cast"),
        pytest.param("* EXCEPT a", "contains a * that stands for any number of columns", id="star"),
        pytest.param("t.*", "contains a * that stands for any number of columns", id="star-of-a-table"),
    ],
)
def test_what_reads_something_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_expression(text)
    assert why in caught.value.sentence


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


def test_columns_that_get_another_name_only() -> None:
    select = {"a": "x", "b": " `y z` ", "c": "w + 1", "d": "v", "e": "upper(v)", "f": "u", "g": "1"}
    assert find_renamed(select, ["u > 5"]) == {"x": "a", "y z": "b"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("countIf(fare < 0) = 0", ("countIf(fare < 0)", "=", "0")),
        ("sum(a)<=-1", ("sum(a)", "<=", "-1")),
        ("a <> 'x = y'", ("a", "<>", "'x = y'")),
        ("count()::Float64 == 1.5", ("count()::Float64", "==", "1.5")),
        ("max(t) - min(t) < INTERVAL 1 DAY", ("max(t) - min(t)", "<", "INTERVAL 1 DAY")),
        ("a = 1 AND b = 2", None),
        ("NOT a = 1", None),
        ("a = b = c", None),
        ("a <=> b", None),
        ("a = 1 ? b : c", None),
        ("CASE WHEN a THEN 1 END = 1", None),
        ("max(a) IN (1, 2)", None),
        ("count()", None),
        ("= 1", None),
    ],
)
def test_a_comparison_is_split(text: str, expected: tuple[str, str, str] | None) -> None:
    assert split_comparison(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("countIf(fare < 0) = 0", "fare < 0"),
        (" COUNTIF( a IN (1, 2) ) == 0 ", "a IN (1, 2)"),
        ("countIf(a) = 1", ""),
        ("countIf(a, b) = 0", ""),
        ("countIf(a) + countIf(b) = 0", ""),
        ("count() = 0", ""),
        ("countIf(a) > 0", ""),
    ],
)
def test_what_is_counted(text: str, expected: str) -> None:
    assert find_counted(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count() >= 0.9 * old.count()", "count() >= 0.9 * <count()>"),
        ("OLD . sum(a + f(b)) = sum(a)", "<sum(a + f(b))> = sum(a)"),
        ("old.quantile(0.5)(a) < old.max(b)", "<quantile(0.5)(a)> < <max(b)>"),
        ("f(old.count(), 'old.count()') = 1", "f(<count()>, 'old.count()') = 1"),
        ("max(old) = 1 AND max(old.a) = 2", "max(old) = 1 AND max(old.a) = 2"),
    ],
)
def test_calls_of_something_are_replaced(text: str, expected: str) -> None:
    assert replace_calls(text, "old", lambda call: f"<{call}>") == expected


def test_functions_are_found_where_they_are_called() -> None:
    assert calls("sum(arrayJoin (a)) = 0", "arrayjoin")
    assert not calls("sum(arrayJoin) = 'arrayJoin('", "arrayjoin")
    assert find_called_by_name("max(day) = Today", ["day"]) == "Today"
    assert find_called_by_name("max(today) = 1", ["today"]) == ""


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("user", ""),
        ("cityHash64(user, `a b`) % 16", ""),
        ("intDiv(toUInt32(ts) + 3600, 86400) * 2 - 1", ""),
        ("xxHash64(lower(name), 'salt')", ""),
        ("(user, ts)", ""),
        ("toDate(ts)", "toDate()"),
        ("cityHash64(toString(ts))", "toString()"),
        ("user + tcpPort()", "tcpPort()"),
        ("dictGet('d', 'v', user)", "dictGet()"),
        ("our_hash(user)", "our_hash()"),
        # a function may be called by its name alone, or be a user's own whose name differs in its case
        ("user + CURRENT_DATE", "CURRENT_DATE"),
        ("cityhash64(user)", "cityhash64()"),
        ("`cityHash64`(user)", "`cityHash64`()"),
        # texts are compared with times by the time zone
        ("ts > '2024-01-01 00:00:00'", ">"),
        ("user::Date", ":"),
        # not one of the columns with values of their own
        ("cityHash64(computed)", "computed"),
        ("ts + INTERVAL 1 MONTH", "INTERVAL"),
    ],
)
def test_what_may_have_another_value_on_another_server(text: str, part: str) -> None:
    assert find_server_bound(text, ["user", "a b", "name", "ts"]) == part
