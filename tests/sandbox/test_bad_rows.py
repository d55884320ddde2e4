"""Rows that cannot be loaded: set aside with their reason, together with the others, each row once."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import json
import logging
import random
import re
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Columns, Reject
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, SourceError, TargetError
from tests.failures import coded
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.gates import Gate
from tests.sandbox.test_new_table import put_csv
from tests.sandbox.topologies import only_on

pytestmark = pytest.mark.sandbox

COLUMNS = "id UInt8, name String, amount Nullable(Decimal(9, 2)), day Date, ok Bool"
NAMES = ("id", "name", "amount", "day", "ok")
GOOD = ("1", "a", "1.25", "2013-01-31", "true")
# what people write in such columns, right and wrong
WORDS = {
    "id": ["7", "255", " 8", "", "256", "-1", "1.5", "x", "\\N", '"9"'],
    "name": ["b", "", '"c,d"', '"say ""hi"""', "it's", '"', '"open', '"a"b', 'a"b', " pad "],
    "amount": ["", "2", "3.10", "1.234", "12345678.00", "1e3", "-0.5", "-", ".", "€5", "\\N", '"4.5"'],
    "day": ["2013-02-28", "2013-02-30", "31.01.2013", "", "2013-13-01", "1969-12-31", "soon", "2013-01-31"],
    "ok": ["true", "false", "yes", "", "2", "TRUE", "1"],
}


def dirty_file(chance: random.Random) -> list[str]:
    """Write lines of which about half have something wrong."""
    lines = []
    for _ in range(chance.randint(1, 30)):
        fields = [
            chance.choice(WORDS[name]) if chance.random() < 0.2 else good
            for name, good in zip(NAMES, GOOD, strict=True)
        ]
        if sum(line.count('"') % 2 for line in lines):  # more of them, and nobody knows where rows begin
            fields = [field for field in fields if field.count('"') % 2 == 0] + ["1"] * 9
            fields = fields[: len(NAMES)]
        if chance.random() < 0.1:
            fields = fields[: chance.randint(1, 4)] if chance.random() < 0.5 else [*fields, "more"]
        lines.append(",".join(fields))
    if chance.random() < 0.3:
        lines.insert(chance.randint(0, len(lines)), "")
    return lines


def oracle(line: str) -> dict[str, Any] | None:
    """Read a line with Python's csv module; None if it cannot be loaded."""
    if line.count('"') % 2:
        return None  # it may be a part of a text of several lines
    try:
        (fields,) = csv.reader([line], strict=True)
    except (csv.Error, ValueError):
        return None
    if len(fields) != len(NAMES):
        return None
    # csv does not tell a quoted field from a bare one; bare ones that are no text may have white space around them
    bare = [not piece.startswith('"') for piece in re.findall(r'("(?:[^"]|"")*"|[^,]*),', line + ",")]
    row = {
        name: field.strip(" ") if is_bare and name != "name" else field
        for name, field, is_bare in zip(NAMES, fields, bare, strict=True)
    }
    return row if all(fits(name, text) for name, text in row.items()) else None


def fits(name: str, text: str) -> bool:
    match name:
        case "id":
            return re.fullmatch(r"\d+", text) is not None and int(text) < 256
        case "name":
            return text != "\\N"
        case "amount":
            if text in ("", "\\N"):
                return True
            return re.fullmatch(r"-?\d+(\.\d{1,2}|e\d)?", text) is not None and abs(Decimal(text)) < 10**7
        case "day":
            try:
                day = dt.date.fromisoformat(text)
            except ValueError:
                return False
            return day.year >= 1970
        case _:
            return text in ("true", "false", "TRUE", "1", "yes")  # as ClickHouse reads a Bool


def as_loaded(row: dict[str, Any]) -> dict[str, Any]:
    amount = None if row["amount"] in ("", "\\N") else float(row["amount"])
    ok = row["ok"].lower() in ("true", "1", "yes")
    return {"id": int(row["id"]), "name": row["name"], "amount": amount, "day": row["day"], "ok": ok}


@pytest.mark.thorough
def test_what_is_accepted_is_what_the_csv_module_says(lab: Lab) -> None:
    """200 files of random lines; the seed is in the message of a failure."""
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    files = {f"in/{number:03}.csv": dirty_file(chance) for number in range(200)}
    for key, lines in files.items():
        end = chance.choice(["\n", "\r\n"])
        body = end.join([",".join(NAMES), *lines]) + (end if chance.random() < 0.5 else "")
        lab.put(key, (chance.choice(["", "\ufeff"]) + body).encode())
    table = lab.distribute(lab.create("t", COLUMNS))
    report = lab.load("in/*.csv", table, bad_rows=Reject())
    good, bad = [], []
    for key, lines in files.items():
        for number, line in enumerate(lines, 2):
            if not line:
                continue
            row = oracle(line)
            if row is None:
                bad.append({"file": f"{lab.bucket}/{key}", "row": number, "line": line})
            else:
                good.append(as_loaded(row))
    found = lab.query(f"SELECT * FROM {table}")
    rejected = lab.query(f"SELECT file, toUInt32(row) AS row, line FROM {table}_rejected")
    assert bag(rejected) == bag(bad), f"seed {seed}"
    assert bag(found) == bag(good), f"seed {seed}"
    assert (report["rows_written"], report["rows_rejected"]) == (len(good), len(bad))
    assert sum(one["rows"] for one in report["rejected"]) <= len(bad)


@pytest.mark.thorough
def test_good_rows_are_loaded_as_without_rejection(lab: Lab) -> None:
    chance = random.Random(7)
    lines = [line for _ in range(100) for line in dirty_file(chance) if line and oracle(line) is not None]
    put_csv(lab, "in/a.csv", ",".join(NAMES), *lines)
    tables = [lab.create(name, COLUMNS) for name in ("strict", "lenient")]
    for table, bad_rows in zip(tables, ("fail", "reject"), strict=True):
        lab.load("in/*.csv", table, bad_rows=bad_rows, task_id=bad_rows)
    strict, lenient = (bag(lab.rows(table)) for table in tables)
    assert lenient == strict
    assert strict.total() == len(lines)


def test_each_bad_row_says_what_is_wrong(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    put_csv(
        lab,
        "in/a.csv",
        ",".join(NAMES),
        ",".join(GOOD),
        "256,a,1,2013-01-31,true",
        "1,a,1,2013-01-31",
        '1,"a,1,2013-01-31,true',
        "1,a,1,2013-02-30,true",
        ",a,1,2013-01-31,true",
    )
    table = lab.create("t", COLUMNS)
    with caplog.at_level(logging.WARNING):
        report = lab.load("in/*.csv", table, bad_rows=Reject())
    columns = "toUInt32(row) AS row, column, value, reason, query_id"
    found = lab.rows(f"{table}_rejected", columns=columns)
    assert {row["query_id"] for row in found} == {report["query_id"]}
    assert sorted((row["row"], row["column"], row["value"], row["reason"]) for row in found) == [
        (3, "id", "256", "not a UInt8"),
        (4, "", "", "4 fields instead of 5"),
        (5, "", "", "a quote is not closed"),
        (6, "day", "2013-02-30", "not a Date"),
        (7, "id", "", "no value, and the column is not Nullable"),
    ]
    assert report["rejected"][0] == {"file": f"{lab.bucket}/in/a.csv", "reason": "4 fields instead of 5", "rows": 1}
    assert "in/a.csv, row 3: id='256': not a UInt8" in caplog.text
    assert f"will be in {lab.database}.t_rejected" in caplog.text


@pytest.mark.thorough
def test_objects(lab: Lab) -> None:
    lines = [
        {"id": 1, "name": "a", "amount": 1.25, "day": "2013-01-31", "ok": True},
        {"id": "2", "name": "b", "day": "2013-01-31", "ok": False},
        {"id": 300, "name": "c", "day": "2013-01-31", "ok": True},
        {"id": 4, "name": "d", "day": "2013-01-31", "ok": True, "more": 1},
        {"id": 5, "day": "2013-01-31", "ok": True},
    ]
    text = "\n".join([*map(json.dumps, lines), "[1]", '{"id": 6', ""])
    lab.put("in/dt=2013-01-31/a.jsonl.gz", gzip.compress(text.encode()))
    table = lab.create("t", f"{COLUMNS}, dt Date")
    lab.load("in/*/*.jsonl.gz", table, bad_rows=Reject())
    assert sorted((row["id"], row["amount"], row["dt"]) for row in lab.rows(table)) == [
        (1, 1.25, "2013-01-31"),
        (2, None, "2013-01-31"),
    ]
    found = lab.rows(f"{table}_rejected", columns="toUInt32(row) AS row, reason")
    assert sorted((row["row"], row["reason"]) for row in found) == [
        (3, "not a UInt8"),
        (4, "unknown field more"),
        (5, "no value, and the column is not Nullable"),
        (6, "not a JSON object"),
        (7, "not a JSON object"),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("columns", "text"),
    [
        pytest.param("value_2 UInt32, x UInt32", "value_2,x\n1,10\n2,20\n", id="value"),
        pytest.param("x UInt32, value_1 UInt32", "x,value_1\n1,10\n2,20\n", id="value-before"),
        pytest.param("problem String, n UInt8", "problem,n\nx,1\n,4\n", id="problem"),
        pytest.param("n UInt8, misfit UInt8", "n,misfit\n0,1\n1,7\n", id="misfit"),
        pytest.param("line String, row UInt8, file String", "line,row,file\na,1,b\nc,2,d\n", id="lines"),
        pytest.param("n Nullable(UInt8)", "n\n1\n\n2\n", id="empty-line-of-one-column"),
        pytest.param("s Nullable(String), n UInt8", 's,n\n "b",3\n"a" ,2\n"x,y"\t,4\n', id="space-around-quotes"),
        pytest.param("s String, t String", 's,t\n "b,c"\n', id="space-before-a-quoted-delimiter"),
        pytest.param(
            "d Date, n Nullable(UInt8), e Enum8('a' = 1)",
            'd,n,e\n2105-02-02\t,"",a \n2105-02-03," 5"," a"\n\t2105-02-04, ,"a"\t\n',
            id="blanks-around-values",
        ),
        pytest.param("id UInt8, e Enum8('a' = 1, 'it\\'s' = 2)", "id,e\n1,a\n2,it's\n", id="enum"),
        pytest.param("qty UInt32, id UInt32", "id,qty\r\n1,5\r\n", id="other-order"),
        pytest.param("dt Date, n UInt8", "n,dt\n1,2013-01-30\n", id="column-also-in-the-header"),
    ],
)
def test_rows_are_the_same_as_without_rejection(lab: Lab, columns: str, text: str) -> None:
    lab.put("in/a.csv", text.encode())
    tables = [lab.create(name, columns) for name in ("strict", "lenient")]
    for table, bad_rows in zip(tables, ("fail", "reject"), strict=True):
        lab.load("in/a.csv", table, bad_rows=bad_rows, task_id=bad_rows)
    assert bag(lab.rows(tables[0])) == bag(lab.rows(tables[1]))
    assert lab.rows(f"{tables[1]}_rejected") == []


@pytest.mark.thorough
def test_numbers_in_objects_are_read_as_written(lab: Lab) -> None:
    lines = (
        '{"s": 1.10, "d": 12345678901234567.12}',
        '{"s": "x", "d": 1e400}',
        '{"s": {"a": 1.50}, "d": 1}',
        '{"t": "\\"d\\": 7", "s": "y", "d": 5.25}',
        '{"s": "z", "d": 1, "d": 2}',
        f'{{"h": {2**128 - 1}, "s": ": {2**70},", "d": -9223372036854775809}}',
        f'{{"h": {2**128}, "s": "h", "d": 1}}',
        '{"x": {"d": 0.25}, "s": "of another object", "d": 0.5}',
        '{"s": "a, 1234567890123456789, b", "d": 3}',
        '{"s": "[1234567890123456789]", "l": [1234567890123456789, 12345678901234567890], "d": 4}',
    )
    lab.put("in/a.jsonl", "\n".join(lines).encode())
    table = lab.create("t", "s String, d Decimal(30, 2), h Nullable(UInt128)")
    lab.load("in/*", table, columns=Columns(on_new="ignore"), bad_rows=Reject())
    found = lab.rows(table, columns="s, toString(d) AS d, toString(h) AS h")
    long = {"s": f": {2**70},", "d": "-9223372036854775809", "h": str(2**128 - 1)}
    first = {"s": "1.10", "d": "12345678901234567.12", "h": None}
    texts = [
        {"s": "a, 1234567890123456789, b", "d": "3", "h": None},
        {"s": "[1234567890123456789]", "d": "4", "h": None},
    ]
    assert bag(found) <= bag([first, {"s": "y", "d": "5.25", "h": None}, long, *texts])
    assert all(row in found for row in (first, long, *texts))
    assert len(found) + len(lab.rows(f"{table}_rejected")) == len(lines)


@pytest.mark.thorough
def test_an_open_quote_that_no_line_can_close(lab: Lab) -> None:
    """The rows after it are rows: none of them has a quote where a text may end."""
    put_csv(lab, "in/a.csv", "n,s,t", '1,5" disk,"open', '2,"b","say ""hi"""', '3,"",c')
    table = lab.create("t", "n UInt8, s String, t String")
    lab.load("in/*.csv", table, bad_rows=Reject())
    assert sorted(row["n"] for row in lab.rows(table)) == [2, 3]
    assert [row["reason"] for row in lab.rows(f"{table}_rejected")] == ["a quote is not closed"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("files", "columns", "error", "words"),
    [
        pytest.param(
            ("\nqty,id\n5,1\n",), "id UInt8, qty UInt8", SourceError, "begins with an empty line", id="blank"
        ),
        pytest.param(
            ("id,qty\n1,2\n", "\nqty,id\n5,1\n"),
            "id UInt8, qty UInt8",
            ChS3Error,
            "names columns of the table, and that of 'in/1.csv' does not",
            id="later-blank",
        ),
        pytest.param(
            ("QTY,ID\n5,1\n",), "id UInt8, qty UInt8", ConfigError, "no column of the table is in the", id="case"
        ),
        pytest.param(
            ("1,5\n", "qty,id\n6,2\n"),
            "id UInt8, qty UInt8",
            ChS3Error,
            "names columns of the table, and that of 'in/0.csv' does not",
            id="later-header",
        ),
        pytest.param(("name,x\nbob,rome\n",), "name String, city String", SourceError, "may be a header", id="word"),
        pytest.param(
            ('s,n\n"a\nb",1\n',),
            "s String, n UInt8",
            LoadError,
            "not closed in line 2, and one in line 3",
            id="two-lines",
        ),
        pytest.param(
            ('a,b,c\n1,5" disk,"start\n2,foo,bar\nend"\n',),
            "a UInt8, b String, c String",
            LoadError,
            "not closed in line 2, and one in line 4",
            id="two-quotes-in-the-first-line",
            marks=pytest.mark.every_case,
        ),
        pytest.param(
            ('a,b\n"start,1\nx,y\nend",5" disk\n',),
            "a String, b String",
            LoadError,
            "not closed in line 2, and one in line 4",
            id="last-line-looks-like-a-row",
        ),
        pytest.param(
            (*(["s,n\na,x\na,-\na,y\n"] * 101), 's,n\n"a\nb,2\nc",1\n'),
            "s String, n UInt8",
            LoadError,
            r"in/101.csv' has a quote that is not closed in line 2, and one in line 4",
            id="beside-more-frequent-reasons",
            marks=pytest.mark.every_case,
        ),
        pytest.param(("a\rb\r",), "n UInt8", SourceError, "carriage return alone", id="old-line-ends"),
    ],
)
def test_where_rows_begin_must_be_known(
    lab: Lab, files: tuple[str, ...], columns: str, error: type[ChS3Error], words: str
) -> None:
    for number, text in enumerate(files):
        lab.put(f"in/{number}.csv", text.encode())
    table = lab.create("t", columns)
    with pytest.raises(error, match=words):
        lab.load("in/*.csv", table, columns=Columns(on_new="ignore", on_missing="default"), bad_rows=Reject())
    assert lab.rows(table) == []
    assert lab.left_overs() == []


def test_tables_whose_merges_fold_rows_are_refused(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "n", "1")
    table = lab.create("t", "n UInt8", "ReplacingMergeTree ORDER BY n")
    with pytest.raises(TargetError, match=coded("engine-folds-rows")):
        lab.load("in/*.csv", table, bad_rows=Reject())
    assert [row["name"] for row in lab.everywhere(f"SHOW TABLES FROM {lab.database}")] == ["t"] * len(lab.nodes())


def test_files_in_other_folders_are_refused(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "s", "x")
    put_csv(lab, "in/k=z/b.csv", "s", "y")
    table = lab.create("t", "s String, k String DEFAULT 'd'")
    with pytest.raises(SourceError, match=coded("folder-values-unclear", "folder k=…", "a.csv'")):
        lab.load("in/**", table, bad_rows=Reject())


def test_a_table_of_that_name_with_other_columns(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "s", "x")
    table = lab.create("t", "s String")
    lab.create("t_rejected", "n UInt8")
    with pytest.raises(TargetError, match=coded("columns-missing", "t_rejected", "column, file")):
        lab.load("in/**", table, bad_rows=Reject())
    assert lab.left_overs() == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("limit", "is_allowed"),
    [
        pytest.param(Reject(max_rows=2), True, id="as-many-as-allowed"),
        pytest.param(Reject(max_rows=1), False, id="one-too-many"),
        pytest.param(Reject(max_ratio=0.5), True, id="share"),
        pytest.param({"reject": {"max_ratio": "0.49"}}, False, id="share-too-great"),
    ],
)
def test_limits(lab: Lab, limit: Any, is_allowed: bool) -> None:
    put_csv(lab, "in/a.csv", "id", "1", "2", "x", "y")
    table = lab.create("t", "id UInt8")
    if is_allowed:
        lab.load("in/*.csv", table, bad_rows=limit)
        assert len(lab.rows(f"{table}_rejected")) == 2
        return
    with pytest.raises(LoadError, match=coded("bad-rows-too-many", "2 rows of 4 (50.00%)")) as caught:
        lab.load("in/*.csv", table, bad_rows=limit)
    assert "row 4: id='x': not a UInt8 in 'x'" in caught.value.sentence
    assert lab.rows(table) == lab.rows(f"{table}_rejected") == []
    assert lab.left_overs() == []


@pytest.mark.thorough
def test_without_bad_rows_nothing_is_set_aside(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "id", "1", "2")
    table = lab.distribute(lab.create("t", "id UInt8"))
    report = lab.load("in/*.csv", table, bad_rows=Reject())
    assert report["rows_rejected"] == 0
    assert lab.query(f"SELECT * FROM {table}_rejected") == []
    # by the ledger
    again = lab.load("in/*.csv", table, bad_rows=Reject(), task_id="again")
    assert again["files_skipped"] == 1


@pytest.mark.thorough
def test_other_headers_are_no_rows(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "id,name", "1,a")
    put_csv(lab, "in/b.csv", "name,id", "2,b")
    table = lab.create("t", "id UInt8, name String")
    with pytest.raises(ChS3Error, match=coded("query-failed", "another line than the first file")):
        lab.load("in/*.csv", table, bad_rows=Reject())
    assert lab.rows(table) == []


@pytest.mark.thorough
def test_files_without_header_and_another_delimiter(lab: Lab) -> None:
    put_csv(lab, "in/a.csv", "1;a;b", "2;c", "x;y")
    table = lab.create("t", "id UInt8, name String")
    lab.load("in/*.csv", table, bad_rows=Reject(), settings={"format_csv_delimiter": ";"})
    assert lab.rows(table) == [{"id": 2, "name": "c"}]
    assert len(lab.rows(f"{table}_rejected")) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("at", ["create_counted", "move_partitions"])
def test_a_killed_process_is_continued(lab: Lab, at: str, freeze: Any, impatient: None) -> None:
    """Both tables have each row once, wherever the first process stops."""
    put_csv(lab, "in/a.csv", "id", *map(str, range(300)))
    table = lab.create("t", "id UInt8")
    gate = freeze(Gate(at), "in/*.csv", table, bad_rows=Reject(), max_tries=1)
    lab.load("in/*.csv", table, bad_rows=Reject(), try_number=2, max_tries=1)
    gate.opened.set()
    with pytest.raises(ChS3Error):
        gate.task.result()
    assert sorted(row["id"] for row in lab.rows(table)) == list(range(256))
    assert sorted(int(row["line"]) for row in lab.rows(f"{table}_rejected")) == list(range(256, 300))
    assert lab.left_overs() == []


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        pytest.param(
            {"mode": "replace_table"}, ConfigError, "does not go together with mode='replace_table'", id="mode"
        ),
        pytest.param({"mode": "direct"}, ConfigError, "does not go together with mode='direct'", id="direct"),
        pytest.param({"where": "id > 1"}, ConfigError, "does not go together with where", id="where"),
        pytest.param({"bad_rows": Reject(max_ratio=2)}, ConfigError, "from 0 to 1", id="ratio"),
        pytest.param(
            {"columns": Columns(on_new="add")}, ConfigError, r"together with Columns\(on_new='add'\)", id="add"
        ),
        pytest.param(
            {"settings": {"format_csv_null_representation": "NA"}},
            ConfigError,
            "together with the setting format_csv_null_representation",
            id="setting",
        ),
        pytest.param({"data_format": "Parquet"}, ConfigError, "these files are Parquet", id="format"),
        pytest.param({"columns": ["list"]}, TargetError, "loads only single values", id="array"),
    ],
)
def test_what_cannot_be_is_refused(lab: Lab, arguments: dict[str, Any], error: type[ChS3Error], words: str) -> None:
    put_csv(lab, "in/a.csv", "id", "1")
    table = lab.create("t", "id UInt8, list Array(UInt8)")
    with pytest.raises(error, match=words):
        lab.load("in/*.csv", table, **{"bad_rows": Reject(), "columns": ["id"], **arguments})
    assert lab.rows(table) == []


@only_on("on-cluster")
@pytest.mark.thorough
def test_older_servers_number_no_lines(replicated_lab: Lab) -> None:
    put_csv(replicated_lab, "in/a.csv", "id", "1")
    table = replicated_lab.create("t", "id UInt8")
    with pytest.raises(ConfigError, match=coded("server-too-old")):
        replicated_lab.load("in/*.csv", table, bad_rows=Reject())
