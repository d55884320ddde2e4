"""Files as they arrive: with and without headers, empty ones, and ones that are not what their names say."""

from __future__ import annotations

import gzip
import io
import json
import logging
import lzma
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.arguments import Columns, Format, Reject
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, SourceError, TargetError
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab
from tests.sandbox.written import parquet_file

pytestmark = pytest.mark.sandbox

MARK = b"\xef\xbb\xbf"
PEOPLE = "name String, city String"
BOB = [("Bob", "Berlin")]
HEADED = b"name,city\nBob,Berlin\n"
PARQUET = parquet_file(pa.table({"t": ["a"]}))
REJECT = {"bad_rows": Reject()}


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.connect_one_node()
    return lab


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files, and what a table has after their load: rows, or '' and the words of a refusal."""

    files: Mapping[str, bytes]
    columns: str = PEOPLE
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    words: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    rejects: bool = True
    """Whether a load that sets bad rows aside does the same."""


def refused(columns: str, words: str, *, rejects: bool = True, **files: bytes) -> Case:
    return Case(files=named(files), columns=columns, words=words, rejects=rejects)


def loaded(columns: str, rows: list[tuple[Any, ...]], *, rejects: bool = True, **files: bytes) -> Case:
    return Case(files=named(files), columns=columns, rows=rows, rejects=rejects)


def named(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name.replace("_", "."): body for name, body in files.items()}


def tar_gz(body: bytes) -> bytes:
    written, member = io.BytesIO(), tarfile.TarInfo("orders-2024-01-05.csv")
    member.size = len(body)
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        archive.addfile(member, io.BytesIO(body))
    return written.getvalue()


COUNTED = "n Int32, s String"
# Those that every push loads.
FEW = {
    "header-in-upper-case": refused(PEOPLE, "City", a_csv=b"Name,City\nBob,Berlin\n"),
    "header-but-for-one-name": refused(PEOPLE, "may be a header or a row", a_csv=b"name,town\nBob,Berlin\n"),
    "mark-quotes-header": loaded(PEOPLE, BOB, a_csv=MARK + b'"name","city"\n"Bob","Berlin"\n'),
    "lines-of-old-macs": refused(PEOPLE, "end with a carriage return alone", a_csv=b"name,city\rBob,Berlin\r"),
    "header-only-first": loaded(PEOPLE, BOB, a_csv=b"name,city\n", b_csv=HEADED),
    "gzip-as-csv": refused("t String", "gzip data", a_csv=gzip.compress(b"x\n")),
    "other-delimiter-fits": refused(PEOPLE, "separated by ',' or by ';'", a_csv=b"Apple;1,50\nPear;2,75\n"),
    "line-end-first": loaded(PEOPLE, BOB, a_csv=b"\n", b_csv=HEADED),
    "empty-list-first": loaded("n Int32", [(1,)], a_json=b"[]", b_json=b'{"n":1}\n'),
    "csv-as-parquet": refused("t String", "are those of text", a_parquet=b"t\nx\n", rejects=False),
    "pages-compressed": loaded("t String", [("a",)], a_parquet_zst=PARQUET, rejects=False),
}
MORE = {
    "header": loaded(PEOPLE, BOB, a_csv=HEADED),
    "header-in-quotes": loaded(PEOPLE, BOB, a_csv=b'"name","city"\nBob,Berlin\n'),
    "header-of-numbers": loaded(
        "country String, `2020` Int32, `2021` Int32", [("DE", 1, 2)], a_csv=b"country,2020,2021\nDE,1,2\n"
    ),
    "header-of-other-numbers": refused(
        "country String, a Int32, b Int32", "may be a header or a row", a_csv=b"country,2020,2021\nDE,1,2\n"
    ),
    "tsv-header-in-upper-case": refused(PEOPLE, "City", a_tsv=b"Name\tCity\nBob\tBerlin\n", rejects=False),
    "tsv-of-windows": loaded(
        COUNTED, [(1, "x"), (2, ""), (3, "z")], a_tsv=b"n\ts\r\n1\tx\r\n2\t\r\n", b_tsv=b"n\ts\n3\tz\n", rejects=False
    ),
    "tsv-of-windows-without-header": loaded(COUNTED, [(1, "x")], a_tsv=b"1\tx\r\n", rejects=False),
    "tsv-header": loaded(PEOPLE, BOB, a_tsv=b"name\tcity\nBob\tBerlin\n", rejects=False),
    "header-with-blanks-and-signs": refused(
        "first_name String, last_name String",
        "first_name is First Name in the files, last_name is last-name in the files",
        a_csv=b"First Name,last-name\nBob,Lee\n",
    ),
    "header-of-one-column": refused("v String", "V", a_csv=b"V\nx\n"),
    "some-with-header": refused(PEOPLE, "names columns of the table", a_csv=b"x,y\n", b_csv=HEADED, rejects=False),
    "mark-texts": refused(PEOPLE, "byte order mark", a_csv=MARK + b'"Bob","Berlin"\n', rejects=False),
    "carriage-return-in-a-text": loaded(PEOPLE, [("Bob", "B\rn")], a_csv=b'Bob,"B\rn"', rejects=False),
    "mark-numbers": loaded(COUNTED, [(1, "a,b"), (2, "c")], a_csv=MARK + b'1,"a,b"\n2,c\n'),
    "mark-quoted-numbers": loaded(COUNTED, [(1, "a,b"), (2, "c")], a_csv=MARK + b'"1","a,b"\n2,c\n'),
    "mark-quotes-header-numbers": loaded(COUNTED, [(2, "c")], a_csv=MARK + b'"n","s"\n2,c\n'),
    "mark-header-gz": loaded(PEOPLE, BOB, a_csv_gz=gzip.compress(MARK + HEADED)),
    "header-only-reordered": loaded(
        "n String, s String", [("2", "c")], a_csv=b"n,s\n", b_csv=b"s,n\nc,2\n", rejects=False
    ),
    "zip": refused("t String", "a zip archive", a_csv=b"PK\x03\x04\x14\x00\x08\x00xx\nyy"),
    "tar": refused("t String", "a tar archive", a_csv_gz=tar_gz(b"x\n")),
    "pdf": refused("t String", "a PDF document", a_csv=b"%PDF-1.4\n1 0 obj\n"),
    "utf-16": refused("t String", "text in UTF-16", a_csv="x\ny\n".encode("utf-16")),
    "html": refused("t String", "a page in HTML", a_csv=b"<!DOCTYPE html>\n<html></html>\n"),
    "error": refused("t String", "AccessDenied", a_csv=b"<?xml?>\n<Error><Code>AccessDenied</Code></Error>"),
    "error-among-good-files": refused("t String", "NoSuchKey", a_csv=b"x\n", b_csv=b"<Error><Code>NoSuchKey</Code>"),
    "html-as-json": refused("n Int32", "a page in HTML", a_json=b"<html></html>"),
    "one-object-with-a-name-twice": refused("n Int32", "Duplicate", a_jsonl=b'{"n":1,"n":2}\n', rejects=False),
    "list-cut-off": refused("n Int32", "the text is cut off", a_json=b'[{"n":1},{"n":2}', rejects=False),
    "parquet-as-csv": refused("t String", "Parquet data", a_csv=PARQUET),
    "parquet-as-orc": refused("t String", "Parquet data", a_orc=PARQUET, rejects=False),
    "html-as-parquet": refused("t String", "a page in HTML", a_parquet=b"<html>\n", rejects=False),
    "csv-as-gz": refused("t String", "text that is not compressed", a_csv_gz=b"t\nx\n"),
    "csv-as-zst": refused("t String", "is not zst data", a_csv_zst=b"t\nx\n"),
    "gzip-twice": refused("t String", "gzip data", a_csv_gz=gzip.compress(gzip.compress(b"x\n"))),
    "compressed-parquet": loaded("t String", [("a",)], a_parquet_gz=gzip.compress(PARQUET), rejects=False),
    "pages-compressed-gz": loaded("t String", [("a",)], a_parquet_gz=PARQUET, rejects=False),
    "other-delimiter-fits-numbers": refused(
        "name String, price Float64", "separated by ',' or by ';'", a_csv=b"Apple;1,50\nPear;2,75\n"
    ),
    "other-delimiter-fits-the-second-file": refused(
        PEOPLE, "in/b.csv' may be separated by ',' or by ';'", a_csv=b"Apple,1\n", b_csv=b"Pear;1,50\nFig;2,75\n"
    ),
    "other-delimiter-does-not-fit": loaded("tags String, n Int32", [("a;b", 5), ("c;d", 6)], a_csv=b"a;b,5\nc;d,6\n"),
    "other-delimiter-and-header": loaded(
        "name String, price String", [("Apple", "1,50")], a_csv=b"name;price\nApple;1,50\n", rejects=False
    ),
    "line-end-last": loaded(PEOPLE, BOB, a_csv=HEADED, b_csv=b"\n"),
    "line-end-without-header": loaded(COUNTED, [(1, "x")], a_csv=b"1,x\n", b_csv=b"\r\n"),
    "line-end-json": loaded("n Int32", [(1,)], a_jsonl=b"\n", b_jsonl=b'{"n":1}\n'),
    "empty-list-last": loaded("n Int32", [(1,)], a_json=b'{"n":1}\n', b_json=b"[ ]\n"),
    "nothing-in-gz": loaded(PEOPLE, BOB, a_csv_gz=gzip.compress(b""), b_csv_gz=gzip.compress(HEADED)),
    "nothing-in-xz": loaded(PEOPLE, BOB, a_csv_xz=lzma.compress(b""), b_csv_xz=lzma.compress(HEADED)),
}


@pytest.mark.parametrize(
    ("case", "rejects"),
    [
        *(pytest.param(case, False, id=name) for name, case in FEW.items()),
        *(thorough(case, False, id=name) for name, case in MORE.items()),
        *(thorough(case, True, id=f"{name}-reject") for name, case in (FEW | MORE).items() if case.rejects),
    ],
)
def test_a_file_as_it_arrives(lab: Lab, case: Case, rejects: bool) -> None:
    table = lab.create("t", case.columns)
    for key, body in case.files.items():
        lab.put(f"in/{key}", body)
    arguments = {**case.arguments, **(REJECT if rejects else {})}
    if case.words:
        with pytest.raises((SourceError, TargetError)) as caught:
            lab.load("in/*", table, **arguments)
        assert case.words in caught.value.sentence
    else:
        lab.load("in/*", table, **arguments)
    assert sorted(tuple(row.values()) for row in lab.rows(table)) == case.rows


@pytest.mark.thorough
@pytest.mark.parametrize("structure", [PEOPLE, thorough("")])
def test_raw_tsv_of_windows_is_refused(lab: Lab, structure: str) -> None:
    """In raw formats, a carriage return belongs to the text, and ClickHouse refuses one in the first row."""
    table = lab.create("t", PEOPLE)
    lab.put("in/a.tsv", b"name\tcity\r\nBob\tBerlin\r\n")
    with pytest.raises(SourceError, match=coded("value-does-not-fit", "line ends of Windows", "data_format='TSV'")):
        lab.load("in/*", table, data_format=Format("TSVRaw", structure=structure))
    assert lab.rows(table) == []


def test_files_without_a_row_are_named_and_not_loaded_again(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    table = lab.create("t", PEOPLE)
    for key, body in {"a.csv": b"\n", "b.csv": HEADED, "c.csv": b"", "_temporary/0/b.csv": HEADED}.items():
        lab.put(f"in/{key}", body)
    lab.load("in/**", table)
    messages = [record.getMessage() for record in caplog.records]
    assert "1 file of 2 without a row: 'in/a.csv'" in messages
    assert [text for text in messages if text.startswith("leaving out 1 object ('in/_temporary/0/b.csv')")]
    assert lab.load("in/**", table, task_id="again")["files_skipped"] == 2
    assert [tuple(row.values()) for row in lab.rows(table)] == BOB


def test_a_header_alone_is_no_row_beside_new_columns(lab: Lab) -> None:
    table = lab.create("t", PEOPLE)
    lab.put("in/a.csv", b"name,city,age\n")
    lab.put("in/b.csv", b"name,city,age\nBob,Berlin,40\n")
    lab.load("in/*", table, columns=Columns(on_new="add", on_missing="default"))
    assert lab.rows(table) == [{"name": "Bob", "city": "Berlin", "age": 40}]


@pytest.mark.parametrize(
    "files",
    [
        thorough({"a.csv": b"name,city\n", "b.csv": HEADED}, id="header-only"),
        thorough({"a.csv": MARK + b'"name","city"\nBob,Berlin\n', "b.csv": HEADED}, id="mark"),
        thorough({"a.csv": b"\n", "b.csv": HEADED, "c.csv": HEADED.replace(b"Bob", b"Al")}, id="line-end"),
    ],
)
def test_a_new_table(lab: Lab, files: Mapping[str, bytes]) -> None:
    for key, body in files.items():
        lab.put(f"in/{key}", body)
    lab.load("in/*", f"{lab.database}.t", create_table="auto")
    assert {"name": "Bob", "city": "Berlin"} in lab.rows(f"{lab.database}.t")


STATED = (
    "CSVWithNamesAndTypes",
    "JSON",
    "TSVWithNamesAndTypes",
    "TabSeparatedWithNamesAndTypes",
    "CustomSeparatedWithNamesAndTypes",
    "JSONCompact",
    "JSONColumnsWithMetadata",
    "JSONCompactEachRowWithNamesAndTypes",
    "JSONCompactStringsEachRowWithNamesAndTypes",
    "RowBinaryWithNamesAndTypes",
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*STATED[:2], *map(thorough, STATED[2:])])
def test_formats_that_state_types(lab: Lab, name: str) -> None:
    written = (
        "toInt8(number) AS n, concat(toString(number), '\"') AS s, toDecimal64(1.25, 2) AS d, toDate(number) AS day"
    )
    aws = json.loads(lab.sandbox.airflow_conn_aws)
    url = f"{aws['extra']['endpoint_url']}/{lab.bucket}/in/a.txt"
    lab.query(
        f"INSERT INTO FUNCTION s3('{url}', '{aws['login']}', '{aws['password']}', '{name}')"
        f" SELECT {written} FROM numbers(2)"
    )
    table = lab.create("t", "n Nullable(Int64), s String, d Decimal(18, 2), day Date32")
    lab.load("in/*", table, data_format=name)
    assert sorted(tuple(row.values()) for row in lab.rows(table)) == [
        (0, '0"', 1.25, "1970-01-01"),
        (1, '1"', 1.25, "1970-01-02"),
    ]
    narrow = lab.create("narrow", "n Int64, s String, d Decimal(9, 1), day Date")
    with pytest.raises((LoadError, SourceError, TargetError)):
        lab.load("in/*", narrow, task_id="narrow", data_format=name)
    assert lab.rows(narrow) == []


def test_the_json_of_clickhouse_is_told_from_lines_of_json(lab: Lab) -> None:
    table = lab.create("t", "n Int64")
    lab.put(
        "in/a.json", b'{\n\t"meta":\n\t[\n\t\t{\n\t\t\t"name": "n", "type": "UInt8"}], "data": [{"n": 1}], "rows": 1}'
    )
    with pytest.raises(SourceError, match=coded("format-wrong", "data_format='JSON'")):
        lab.load("in/*", table)


SPARK = r"""id,say,price
1,"He said \"hi\", ok",1.5
2,plain,2
3,"5\"",3
4,,4
5,"",5
6,"C:\\dir",6
7,a\b,7
"""


@pytest.mark.thorough
def test_csv_with_backslashes_before_quotes(lab: Lab) -> None:
    dialect = {"data_format": {"csv": {"escape": "\\"}}}
    table = lab.create("t", "id Int32, say Nullable(String), price Decimal(9, 2)")
    lab.put("in/a.csv", SPARK.encode())
    lab.put("in/b.csv", b'id,say,price\r\n8,"x",8\r\n')
    lab.load("in/*", table, where="id != 2", **dialect)
    assert sorted(tuple(row.values()) for row in lab.rows(table)) == [
        (1, 'He said "hi", ok', 1.5),
        (3, '5"', 3),
        (4, None, 4),
        (5, "", 5),
        (6, "C:\\dir", 6),
        (7, "a\\b", 7),
        (8, "x", 8),
    ]
    narrow = lab.create("narrow", "id Int32, say String, price UInt8")
    with pytest.raises(SourceError, match=coded("value-does-not-fit", "'price'")):
        lab.load("in/a.csv", narrow, task_id="narrow", **dialect)
    lab.put("several/a.csv", b'id,say,price\n1,"a\nb",1\n')
    with pytest.raises(SourceError, match=coded("value-does-not-fit", "match the regexp")):
        lab.load("several/*", table, task_id="several", **dialect)
    with pytest.raises(ConfigError, match=coded("structure-needed")):
        lab.load("in/*", f"{lab.database}.new", task_id="new", create_table="auto", **dialect)


@pytest.mark.thorough
def test_a_file_in_the_middle_that_is_no_text(lab: Lab) -> None:
    """The first bytes of at most 12 files are looked at before the load."""
    lab.connect_one_node()
    for number in range(30):
        lab.put(f"in/{number:02}.csv", b"PK\x03\x04 and more\n" if number == 14 else b"a\n")
    table = lab.create("t", "v String")
    with pytest.raises(
        ChS3Error, match=coded("value-does-not-fit", "a file that begins with the bytes 504B030420616E64")
    ):
        lab.load("in/*", table)
    assert lab.rows(table) == []
    lab.load(["in/0*", "in/2*"], table)
    assert lab.rows(table) == [{"v": "a"}] * 20
