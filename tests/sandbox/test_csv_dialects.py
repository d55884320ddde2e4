"""CSV as people write it: delimiters, quotes, headers, encodings, words for nothing."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Columns, Format, Reject
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError
from airflow_provider_ch_s3.files.data_format import Csv
from airflow_provider_ch_s3.modes import Append
from tests.failures import coded
from tests.sandbox.conftest import Lab, bag

pytestmark = pytest.mark.sandbox

COLUMNS = "id UInt8, name String, size Nullable(Float64), day Nullable(Date)"
ROWS = [
    {"id": 1, "name": "a", "size": 1.5, "day": "2013-01-31"},
    {"id": 2, "name": "b;c,d", "size": None, "day": None},
]
PLAIN = 'id,name,size,day\n1,a,1.5,2013-01-31\n2,"b;c,d",,\n'

WITHOUT_HEADER = {
    "data_format": Csv(header=False, skip_lines=1, structure="a Int64, b String, c String"),
    "columns": Columns(on_new="ignore"),
}

CASES = [
    pytest.param('id;name;size;day\n1;a;1.5;2013-01-31\n2;"b;c,d";;\n', None, id="semicolons-guessed"),
    pytest.param(PLAIN, None, id="plain"),
    pytest.param("\ufeff" + PLAIN, None, id="byte-order-mark"),
    pytest.param("id\tname\tsize\tday\n1\ta\t1.5\t2013-01-31\n2\tb;c,d\t\t\n", None, id="tabs-guessed"),
    pytest.param("id|name|size|day\n1|a|1.5|2013-01-31\n2|b;c,d||\n", {"csv": {"delimiter": "|"}}, id="bars"),
    pytest.param('id name size day\n1 a 1.5 2013-01-31\n2 "b;c,d"  \n', {"csv": {"delimiter": " "}}, id="blanks"),
    pytest.param("id,name,size,day\n1,a,1.5,2013-01-31\n2,'b;c,d',,\n", {"csv": {"quote": "'"}}, id="single-quotes"),
    pytest.param("# made by hand\n\n" + PLAIN, {"csv": {"skip_lines": 2}}, id="lines-before-the-header"),
    pytest.param(PLAIN.split("\n", 1)[1], Csv(header=False), id="no-header"),
    pytest.param(PLAIN.split("\n", 1)[1], None, id="no-header-found-out"),
    pytest.param(PLAIN, Csv(header=True), id="header"),
    pytest.param(
        'id,name,size,day\n1,a,1.5,2013-01-31\n2,"b;c,d",NA,-\n',
        {"csv": {"null_words": ["NA", "-"]}},
        id="null-words",
    ),
]


@pytest.mark.parametrize(("text", "dialect"), CASES)
def test_rows_arrive(lab: Lab, text: str, dialect: Any) -> None:
    lab.put("in/a.csv", text.encode())
    table = lab.create("t", COLUMNS)
    lab.load("in/*.csv", table, data_format=dialect)
    assert bag(lab.rows(table)) == bag(ROWS)


@pytest.mark.thorough
def test_text_in_another_encoding(lab: Lab) -> None:
    text = "id,name,note\n1,Zoë,€ 5\n2,naïve,NA\n"
    lab.put("in/a.csv", text.encode("windows-1252"))
    table = lab.create("t", "id UInt8, name String, note LowCardinality(Nullable(String))")
    lab.load("in/*.csv", table, data_format={"csv": {"encoding": "windows-1252", "null_words": ["NA"]}})
    assert bag(lab.rows(table)) == bag(
        [{"id": 1, "name": "Zoë", "note": "€ 5"}, {"id": 2, "name": "naïve", "note": None}]
    )


def test_another_encoding_that_is_not_given_is_told(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    for key, encoding in (("a", "utf-8"), ("b", "windows-1252")):
        lab.put(f"in/{key}.csv", "id,name\n1,Zoë X\n".encode(encoding))
    table = lab.create("t", "id UInt8, name String")
    lab.load("in/a.csv", table)
    told = "'in/b.csv' is not UTF-8"
    assert "UTF-8" not in caplog.text
    lab.load("in/*.csv", table, task_id="both")
    assert caplog.text.count(told) == 1
    lab.load("in/b.csv", table, task_id="told", mode="direct", data_format={"csv": {"encoding": "windows-1252"}})
    assert caplog.text.count(told) == 1


@pytest.mark.thorough
def test_a_null_word_is_text_where_nothing_may_be_missing(lab: Lab) -> None:
    lab.put("in/a.csv", b"code,n\nNA,1\nDE,NA\n")
    table = lab.create("t", "code String, n Nullable(UInt8)")
    lab.load("in/*.csv", table, data_format={"csv": {"null_words": ["NA"]}})
    assert bag(lab.rows(table)) == bag([{"code": "NA", "n": 1}, {"code": "DE", "n": None}])


def test_other_words_still_fail(lab: Lab) -> None:
    lab.put("in/a.csv", b"n\nNA\nn/a\n")
    table = lab.create("t", "n Nullable(UInt8)")
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "n/a")):
        lab.load("in/*.csv", table, data_format={"csv": {"null_words": ["NA"]}})
    assert lab.rows(table) == []


@pytest.mark.thorough
def test_a_single_column_may_contain_anything(lab: Lab) -> None:
    lab.put("in/a.csv", b"line\na;b\nc;d\n")
    table = lab.create("t", "line String")
    lab.load("in/*.csv", table)
    assert bag(lab.rows(table)) == bag([{"line": "a;b"}, {"line": "c;d"}])


@pytest.mark.thorough
def test_a_table_is_made_from_a_guessed_dialect(lab: Lab) -> None:
    lab.put("in/a.csv", b"id;price\n1;1.5\n2;3\n")
    lab.load("in/*.csv", "made", create_table={"distributed": False})
    assert bag(lab.rows(f"{lab.database}.made")) == bag([{"id": 1, "price": 1.5}, {"id": 2, "price": 3.0}])


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        pytest.param({"delimiter": "::"}, "delimiter='::'", id="delimiter"),
        pytest.param({"quote": "`"}, "quote='`'", id="quote"),
        pytest.param({"skip_lines": -1}, "skip_lines=-1", id="skip"),
        pytest.param({"encoding": "latin-99"}, "encoding='latin-99'", id="encoding"),
        pytest.param({"encoding": "utf-16"}, "rewrite the files as UTF-8", id="utf-16"),
        pytest.param({"null_words": "NA"}, r"write a list: \['NA'\]", id="words"),
        pytest.param({"delimeter": ";"}, "no field 'delimeter'", id="field"),
    ],
)
def test_wrong_dialects_are_refused(lab: Lab, dialect: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        lab.load("in/*.csv", lab.create("t", COLUMNS), data_format={"csv": dialect})


def test_a_dialect_says_that_files_with_other_names_are_csv(lab: Lab) -> None:
    lab.put("in/elb.log", b'a 7 "GET /b"\nb 8 "-"\n')
    table = lab.create("t", "host String, n UInt8, request String")
    lab.load("in/*", table, data_format=Csv(delimiter=" "))
    assert bag(lab.rows(table, columns="n, request")) == bag(
        [{"n": 7, "request": "GET /b"}, {"n": 8, "request": "-"}]
    )


def test_a_dialect_of_other_files_is_refused(lab: Lab) -> None:
    lab.put("in/a.jsonl", b'{"id": 1}\n')
    with pytest.raises(ConfigError, match=coded("argument-invalid", "data_format=Csv(…)", "JSONEachRow")):
        lab.load("in/*.jsonl", lab.create("t", "id UInt8"), data_format={"csv": {"null_words": ["NA"]}})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("in/a.csv", "a,b\n1,x\n2,\n\n", id="csv"),
        pytest.param("in/a.csv", "1,x\r\n2,\r\n\r\n\r\n", id="windows-without-header"),
        pytest.param("in/a.tsv", "a\tb\n1\tx\n2\t\n\n", id="tsv"),
        pytest.param("in/a.csv", "a;b\n1;x\n2;\n\n", id="guessed-delimiter"),
    ],
)
def test_an_empty_line_at_the_end_is_no_row(lab: Lab, key: str, text: str) -> None:
    table = lab.create("t", "a Int64, b String")
    lab.put(key, text.encode())
    lab.load("in/*", table)
    assert bag(lab.rows(table)) == bag([{"a": 1, "b": "x"}, {"a": 2, "b": ""}])
    if text.startswith("a"):
        lab.load("in/*", "made", create_table={"distributed": False}, task_id="auto")
        assert len(lab.rows(f"{lab.database}.made")) == 2
    if key.endswith("csv") and ";" not in text:
        lab.load("in/*", table, mode=Append(on_loaded="load"), bad_rows=Reject(), task_id="reject")
        assert len(lab.rows(table)) == 4


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param("a,b\n1,'x,y'\n\n", {"data_format": Csv(quote="'")}, id="other-quotes"),
        pytest.param('a,b\n1, "x,y"\n', {"data_format": Csv(trim=True)}, id="blank-before-quotes"),
        pytest.param('a,b,"c\n(d, e)"\n1,"x,y",3\n', {"columns": ["a", "b"]}, id="header-of-two-lines"),
    ],
)
def test_a_first_row_with_more_delimiters_than_fields(lab: Lab, text: str, arguments: dict[str, Any]) -> None:
    table = lab.create("t", "a Int64, b String")
    lab.put("in/a.csv", text.encode())
    lab.load("in/*", table, **arguments)
    assert lab.rows(table) == [{"a": 1, "b": "x,y"}]


def test_a_header_and_an_empty_line_have_no_row(lab: Lab) -> None:
    table = lab.create("t", "a Int64, b String")
    lab.put("in/a.csv", b"a,b\n\n")
    with pytest.raises(ChS3Error, match=coded("rows-too-few", "0 rows", "min_rows=1")):
        lab.load("in/*", table)


def test_an_empty_line_of_one_column_is_a_row(lab: Lab) -> None:
    table = lab.create("t", "a String")
    lab.put("in/a.csv", b"a\nx\n\n")
    lab.put("in/b.tsv", b"a\ny\n\n")
    for ending in ("csv", "tsv"):
        lab.load(f"in/*.{ending}", table, task_id=ending)
    assert sorted(row["a"] for row in lab.rows(table)) == ["", "", "x", "y"]


UNEVEN = ("value-does-not-fit", "fewer or more fields")


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        pytest.param("in/a.csv", b"a,b\n1,x\n2\n3,z\n", (*UNEVEN, "row 2 of", "in/a."), id="short"),
        pytest.param("in/a.csv", b"a,b\n2\n3,z\n", (*UNEVEN, "row 1 of", "in/a."), id="first-row-short"),
        pytest.param("in/a.csv", b"a,b\n1,x\n2,y,z\n3,z\n", (*UNEVEN, "row 2 of", "in/a."), id="long"),
        pytest.param("in/a.csv", b"1,x\n2,y,z\n3,z\n", ("structure-needed", "3 columns"), id="no-header"),
        pytest.param("in/a.csv", b"a,b\n1,x\n\n3,z\n", (*UNEVEN, "row 2 of", "in/a."), id="empty-in-the-middle"),
        pytest.param("in/a.tsv", b"a\tb\n1\tx\n2\n3\tz\n", (*UNEVEN, "row 2 of", "in/a."), id="tsv"),
    ],
)
def test_a_row_of_another_length_is_named(lab: Lab, key: str, text: bytes, said: tuple[str, ...]) -> None:
    table = lab.create("t", "a Int64, b String")
    lab.put(key, text)
    with pytest.raises(ChS3Error, match=coded(*said)):
        lab.load("in/*", table)
    assert lab.rows(table) == []


def test_a_name_twice_is_told_before_lines_are_read_one_by_one(lab: Lab) -> None:
    table = lab.create("t", "a Int64, b String")
    lab.put("in/a.csv", b"a,b,b\n1,x,y\n")
    with pytest.raises(ChS3Error, match=coded("header-incomplete", "has b")):
        lab.load("in/*", table, bad_rows=Reject())


@pytest.mark.push
@pytest.mark.parametrize(
    ("text", "said", "arguments"),
    [
        pytest.param(",a,b\n0,1,x\n\n", "no name for field 1: an index", {"columns": ["a", "b"]}, id="pandas-index"),
        pytest.param("a,b,\n1,x,\n", "no name for field 3", {"columns": ["a", "b"]}, id="delimiter-at-the-end"),
        pytest.param(
            "a,b\n1,x,\n",
            "header of 'in/a.csv' has 2 fields, and the row below it has 3",
            WITHOUT_HEADER,
            id="short",
        ),
        pytest.param(
            "a,b,b\n1,x,y\n",
            "has b more than once",
            WITHOUT_HEADER,
            id="twice",
        ),
        pytest.param(
            "sep=;\na;b\n1;x\n",
            "begins with 'sep=;', a line for Excel",
            {"data_format": Csv(delimiter=";", skip_lines=1)},
            id="excel",
        ),
        pytest.param(
            "# made, by hand\na,b\n1,x\n",
            "looks like a comment",
            {"data_format": Csv(skip_lines=1)},
            id="comment",
        ),
        pytest.param(
            "a\tb\tb\n1\tx\ty\n",
            "settings=..input_format_tsv_skip_first_lines.: 1.",
            {
                "data_format": Format("TSV", structure="a Int64, b String, c String"),
                "settings": {"input_format_tsv_skip_first_lines": 1},
                "columns": ["a", "b"],
            },
            id="twice-in-tsv",
        ),
        pytest.param(
            "# by hand\na\tb\n1\tx\n",
            "looks like a comment",
            {"settings": {"input_format_tsv_skip_first_lines": 1}},
            id="comment-in-tsv",
        ),
    ],
)
def test_an_odd_first_line_is_told_and_the_remedy_works(
    lab: Lab, text: str, said: str, arguments: dict[str, Any]
) -> None:
    table = lab.create("t", "a Int64, b String")
    key = "in/a.tsv" if "\t" in text else "in/a.csv"
    lab.put(key, text.encode())
    with pytest.raises(ChS3Error, match=said) as caught:
        lab.load("in/*", table)
    assert key in str(caught.value)
    lab.load("in/*", table, **arguments)
    assert lab.rows(table) == [{"a": 1, "b": "x"}]


def test_a_table_is_not_made_from_an_index_without_a_name(lab: Lab) -> None:
    lab.put("in/a.csv", b",a,b\n0,1,x\n1,2,y\n")
    with pytest.raises(ChS3Error, match=coded("header-incomplete", "field 1")):
        lab.load("in/*", f"{lab.database}.t", create_table="auto")


def test_lists_and_objects_with_backslashes(lab: Lab) -> None:
    table = lab.create("t", "n UInt8, l Array(String), m Map(String, Int32), t Tuple(Int32, Array(Float64))")
    lab.put("in/a.csv", b"""n,l,m,t\n1,"['a','x\\"y']","{'k':1}","(1,[0.5])"\n2,[],{},"(2,[])"\n""")
    lab.load("in/*", table, data_format=Csv(escape="\\"))
    assert lab.rows(f"{table} ORDER BY n") == [
        {"n": 1, "l": ["a", 'x"y'], "m": {"k": 1}, "t": [1, [0.5]]},
        {"n": 2, "l": [], "m": {}, "t": [2, []]},
    ]
    lab.put("bad/a.csv", b"""n,l,m,t\n1,"['a']]","{'k':1}","(1,[0.5])"\n""")
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "column l")):
        lab.load("bad/*", table, data_format=Csv(escape="\\"), task_id="bad")


def test_an_empty_line_between_lines_with_backslashes(lab: Lab) -> None:
    table = lab.create("t", "a Int64, b String")
    lab.put("in/a.csv", b'a,b\n1,"x\\"y"\n\n')
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "''", "fewer or more fields", "row 3 of")):
        lab.load("in/*", table, data_format=Csv(escape="\\"))


@pytest.mark.thorough
def test_a_tuple_with_a_list_may_be_left_out(lab: Lab) -> None:
    table = lab.create("t", "n Int32, t Tuple(Int32, Array(Int32))")
    lab.put("in/a.csv", b"n,t\n1,x\n")
    lab.load("in/*", table, columns=["n"])
    assert lab.rows(table, columns="n") == [{"n": 1}]
    with pytest.raises(ChS3Error, match=coded("type-not-convertible", "Tuple")):
        lab.load("in/*", table, mode=Append(on_loaded="load"), task_id="all")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("DateTime('Europe/Berlin')", "03/31/2024 10:00:07", "2024-03-31 10:00:07"),
        ("Nullable(Date32)", "31.12.2024", "2024-12-31"),
        ("DateTime64(3)", "3/4/2024 9:00", "2024-04-03 09:00:00.000"),
    ],
)
@pytest.mark.parametrize("key", ["csv", "jsonl"])
def test_the_expression_for_a_local_time_works(lab: Lab, key: str, kind: str, text: str, value: str) -> None:
    table = lab.create("t", f"n Int32, v {kind}")
    missing = "2,\n" if kind.startswith("Nullable") else ""
    body = f"n,v\n1,{text}\n{missing}" if key == "csv" else f'{{"n": 1, "v": "{text}"}}\n'
    lab.put(f"in/a.{key}", body.encode())
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "select=")) as caught:
        lab.load("in/*", table)
    line = next(line for line in str(caught.value).splitlines() if line.startswith("say"))
    lab.load("in/*", table, select=ast.literal_eval(line.partition("select=")[2]), task_id="again")
    assert lab.rows(table, columns="v")[0] == {"v": value}


@pytest.mark.parametrize("key", ["csv", "jsonl"])
def test_names_in_other_cases_are_told_with_bad_rows_as_without(lab: Lab, key: str) -> None:
    table = lab.create("t", "a Int64, b String")
    lab.put(f"in/a.{key}", b"A,B\n1,x\n" if key == "csv" else b'{"A": 1, "B": "x"}\n')
    for number, arguments in enumerate(({}, {"bad_rows": Reject()})):
        with pytest.raises(ChS3Error, match=coded("names-differ-in-case", "a is A", "b is B")):
            lab.load("in/*", table, task_id=f"t{number}", **arguments)


OPEN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "nullable": ("n Int64, v Nullable(String)", 'n,v\n1,x\n2,"abc\n3,y\n4,\n', {}),
    "no-header": ("n Int64, v String", '1,x\n2,"abc\n3,y\n', {}),
    "two-texts": ("k String, v String", 'b,x\nc,"abc\nd,y\n', {}),
    "one-text": ("v String", 'v\nx\n"abc\nd y\n', {}),
    "no-header-one-text": ("v String", 'x\n"abc\nd y\n', {}),
    "null-words": ("n Int64, v Nullable(String)", 'n,v\n1,x\n2,"abc\n3,y\n', {"data_format": Csv(null_words=["NA"])}),
    "fixed": ("n Int64, v FixedString(20)", '1,x\n2,"abc\n3,y\n', {}),
    "fields-in-quotes": ("n Nullable(Int64), v String", 'n,v\n1,x\n2,"abc\n"",\n\\N,z\n3,y\n', {}),
    "untyped": ("n Int64, v Dynamic", 'n,v\n1,x\n2,"abc\n3,y\n', {}),
    "left-out": (
        "n Int64, d Date",
        'n,d,v\n1,2024-01-02,x\n2,2024-01-03,"abc\n3,2024-01-04,y\n',
        {"columns": ["n", "d"]},
    ),
    "renamed": ("w String", 'n,v\n1,x\n2,"abc\n3,y\n', {"select": {"w": "v"}, "data_format": Csv(header=True)}),
    "no-line-break-at-the-end": ("n Int64, v String", 'n,v\n1,x\n2,"abc\n3,y', {}),
    "no-line-break-two-texts": ("k String, v String", 'b,x\nc,"abc\nd,y z\ne,y', {}),
    "no-line-break-windows": ("n Int64, v String", 'n,v\r\n1,x\r\n2,"abc\r\n3,\r\n4,y', {}),
    "no-line-break-tabs": ("n Int64, v String", 'n\tv\n1\tx\n2\t"abc\n3\ty', {"data_format": Csv(delimiter="\t")}),
}


@pytest.mark.parametrize("name", OPEN)
def test_rows_after_a_quote_without_an_end_are_no_text(lab: Lab, name: str) -> None:
    columns, text, arguments = OPEN[name]
    table = lab.create("t", columns)
    lab.put("in/a.csv", text.encode())
    with pytest.raises(
        ChS3Error, match=coded("value-does-not-fit", "column v: 'abc", "quote without an end", "row 2 ")
    ):
        lab.load("in/*", table, **arguments)
    assert lab.rows(table) == []


def test_texts_of_several_lines_are_loaded(lab: Lab) -> None:
    table = lab.create("t", "n Int64, v Nullable(String)")
    lab.put("in/a.csv", b'n,v\n1,"x\ny"\n2,"Dear John,\nyes, thanks\n"\n')
    lab.load("in/a.csv", table, task_id="texts")
    assert [row["v"] for row in lab.rows(f"{table} ORDER BY n")] == ["x\ny", "Dear John,\nyes, thanks\n"]
    texts = lab.create("texts", "k String, v String")
    lab.put("in/b.csv", b'1,"x\ny, z\nand so on\n"\n2,"x\n"\n3,"x\ny"\n')
    lab.load("in/b.csv", texts, task_id="two")
    assert [row["v"] for row in lab.rows(f"{texts} ORDER BY k")] == ["x\ny, z\nand so on\n", "x\n", "x\ny"]
    orders = lab.create("orders", "k Int64, v String")
    lab.put("in/c.csv", b'1,"Dear John,\nI need\n5 apples, thanks\n"\n2,"Square 5\n10115, Berlin"\n3,"5 of\n3"\n')
    lab.load("in/c.csv", orders, task_id="typed")
    assert len(lab.rows(orders)) == 3


def test_a_text_that_ends_like_a_row_is_loaded_if_it_is_meant(lab: Lab) -> None:
    table = lab.create("t", "v String")
    lab.put("in/a.csv", b'v\n"x\ny\n"\n')
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "select=")) as caught:
        lab.load("in/*", table)
    line = next(line for line in str(caught.value).splitlines() if line.startswith("close"))
    lab.load("in/*", table, select=ast.literal_eval(line.partition("select=")[2]), task_id="meant")
    assert lab.rows(table) == [{"v": "x\ny\n"}]


def test_an_expression_that_fails_for_a_missing_value_names_the_row(lab: Lab) -> None:
    table = lab.create("t", "n Int32, v Nullable(Date32)")
    lab.put("in/a.csv", b"n,v\n1,31.12.2024\n2,\n")
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "row 2 below the header")):
        lab.load("in/*", table, select={"v": "toDate32(parseDateTime(v, '%d.%m.%Y'))"})
