"""TSV: empty fields and NULL are told apart, and lines may end as on Windows, also only in some lines."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ch_s3.arguments import Format
from airflow_provider_ch_s3.errors import BadValueError
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox

COLUMNS = (
    "n Nullable(Int32), s Nullable(String), t String, f FixedString(3), d Nullable(Date), u Nullable(UUID),"
    " w LowCardinality(Nullable(String)), a Array(Int32), m Map(String, UInt8)"
)
FIELDS = [
    ["", "", "", "abc", "", "", "", "", "{}"],
    [r"\N", r"\N", "x", "abc", r"\N", r"\N", r"\N", "[]", r"{'C:\\new':1}"],
    ["5", r"C:\\new", r"a\tb", "abc", "2024-02-29", "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "z", "[1,2]", "{}"],
]
ROWS = [
    (None, "", "", "abc", None, None, "", [], {}),
    (None, None, "x", "abc", None, None, None, [], {r"C:\new": 1}),
    (5, r"C:\new", "a\tb", "abc", "2024-02-29", "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "z", [1, 2], {}),
]
NAMES = list("nstfduwam")


@pytest.mark.every_case
@pytest.mark.parametrize("has_header", [False, thorough(True)])
def test_empty_and_missing_fields(engine_lab: Lab, has_header: bool) -> None:
    lines = ["\t".join(fields) for fields in [NAMES] * has_header + FIELDS]
    engine_lab.put("in/a.tsv", "\n".join(lines).encode())
    engine_lab.put("in/b.tsv", "\r\n".join(lines).encode())
    table = engine_lab.create("t", COLUMNS)
    engine_lab.load("in/*", table)
    rows = [tuple(row.values()) for row in engine_lab.rows(table)]
    assert sorted(rows, key=str) == sorted(2 * ROWS, key=str)


@pytest.mark.every_case
@pytest.mark.parametrize("is_given", [False, thorough(True)])
@pytest.mark.parametrize("kind", ["String", *map(thorough, ("FixedString(3)", "LowCardinality(String)"))])
def test_a_null_is_no_text(engine_lab: Lab, kind: str, is_given: bool) -> None:
    columns = f"n Int32, t {kind}"
    engine_lab.put("in/a.tsv", b"1\tabc\n2\t\\N\n")
    table = engine_lab.create("t", columns)
    more = {"data_format": Format("TSV", structure=columns)} if is_given else {}
    with pytest.raises(BadValueError, match=coded("value-does-not-fit", "column t:", "row 2 of")):
        engine_lab.load("in/*", table, **more)
    assert engine_lab.rows(table) == []
    engine_lab.load("in/*", table, task_id="chosen", select={"t": "ifNull(t, '')"}, **more)
    assert len(engine_lab.rows(table)) == 2


@pytest.mark.every_case
@pytest.mark.parametrize(
    "kind",
    ["Map(String, String)", *map(thorough, ("Tuple(String, String)", "Array(String)", "Array(Array(String))"))],
)
@pytest.mark.parametrize("after", ["", thorough("\t5")])
def test_an_empty_field_is_no_list_of_texts(engine_lab: Lab, kind: str, after: str) -> None:
    engine_lab.put("in/a.tsv", f"1\t{after}\n".encode())
    table = engine_lab.create("t", f"n Int32, m {kind}{', k Int32' if after else ''}")
    words = ("column m:", "is not a list, a map or a tuple", "row 1 of", "write [] or {}")
    with pytest.raises(BadValueError, match=coded("value-does-not-fit", *words)):
        engine_lab.load("in/*", table)


@pytest.mark.every_case
@pytest.mark.parametrize("name", ["TSV", thorough("TabSeparatedWithNames"), thorough("TSVRaw")])
def test_what_clickhouse_writes(engine_lab: Lab, name: str) -> None:
    """ClickHouse writes NULL as ``\\N``, and an empty text as an empty field."""
    lab, columns = engine_lab, "n Int32, s Nullable(String), i Nullable(Int32)"
    aws = json.loads(lab.sandbox.airflow_conn_aws)
    url = f"{aws['extra']['endpoint_url']}/{lab.bucket}/in/a.tsv"
    lab.query(
        f"INSERT INTO FUNCTION s3('{url}', '{aws['login']}', '{aws['password']}', '{name}', '{columns}')"
        " VALUES (1, NULL, 5), (2, '', NULL), (3, 'x', 0)"
    )
    table = lab.create("t", columns)
    lab.load("in/*", table, data_format=Format(name, structure="" if "Names" in name else columns))
    assert sorted(tuple(row.values()) for row in lab.rows(table)) == [(1, None, 5), (2, "", None), (3, "x", 0)]


@pytest.mark.thorough
def test_a_raw_text_may_look_like_null(engine_lab: Lab) -> None:
    columns = "s Nullable(String), t String, i Nullable(Int32)"
    engine_lab.put("in/a.tsv", b"\\N\t\\N\t\\N\n\t\t\n")
    table = engine_lab.create("t", columns)
    engine_lab.load("in/*", table, data_format=Format("TSVRaw", structure=columns))
    assert [tuple(row.values()) for row in engine_lab.rows(table)] == [(None, r"\N", None), ("", "", None)]


@pytest.mark.parametrize("is_windows_first", [False, thorough(True)])
def test_line_ends_that_change_within_a_file(engine_lab: Lab, is_windows_first: bool) -> None:
    """The first bytes that a load looks at have only one kind."""
    ends = ["\r\n", "\n"] if is_windows_first else ["\n", "\r\n"]
    body = "".join(f"{n}\ttext {n}{ends[n >= 2000]}" for n in range(4000))
    engine_lab.put("in/a.tsv", body.encode())
    table = engine_lab.create("t", "n Int32, s String")
    engine_lab.load("in/*", table)
    assert {(row["n"], row["s"]) for row in engine_lab.rows(table)} == {(n, f"text {n}") for n in range(4000)}


@pytest.mark.thorough
def test_a_new_table_for_empty_texts(engine_lab: Lab) -> None:
    engine_lab.put("in/a.tsv", b"n\tempty\tnothing\tnumber\n1\t\t\\N\t\n2\tx\ty\t5\n")
    table = f"{engine_lab.database}.t"
    engine_lab.load("in/*", table, create_table="auto")
    types = {row["name"]: row["type"] for row in engine_lab.query(f"DESCRIBE TABLE {table}")}
    assert (types["empty"], types["nothing"]) == ("String", "Nullable(String)")
    rows = [tuple(row.values()) for row in engine_lab.rows(table, columns="n, empty, nothing, number")]
    assert sorted(rows) == [(1, "", None, None), (2, "x", "y", 5)]
