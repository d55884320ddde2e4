"""What is in objects and untyped values of JSON stays as it is, or the load fails."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ch_s3.errors import ChS3Error
from ch_s3_lab.sandbox import Sandbox
from tests.failures import coded
from tests.marks import thorough
from tests.sandbox.conftest import Lab, lab_in

pytestmark = pytest.mark.sandbox

KEPT = [
    '{"a":18446744073709551615,"b":-9223372036854775808,"d":0.30000000000000004,"e":5e-324}',
    '{"a":"0.1234567890123456789","b":[1,{"c":123456789012345678}],"c":"x\\"0.1234567890123456789"}',
    '{"a":7.8100000000000005,"b":0,"c":1.7976931348623157e308}',
]


def put(lab: Lab, data_format: str, *objects: str) -> None:
    """Write a file whose column ``v`` has objects, and ``n`` lists of them where the format has lists."""
    if data_format == "parquet":
        lab.put_parquet("in/a.parquet", {"v": pa.array(objects), "n": pa.array([[one] for one in objects])})
        return
    lines = [f'{{"v":{one},"n":[{one}]}}' for one in objects]
    if data_format == "csv":
        lines = ['"{}"'.format(one.replace('"', '""')) for one in objects]
    lab.put(f"in/a.{data_format}", "".join(f"{line}\n" for line in lines).encode())


def create(lab: Lab, data_format: str) -> str:
    lab.connect_one_node()
    return lab.create("t", "v JSON" if data_format == "csv" else "v JSON, n Array(JSON)")


@pytest.mark.parametrize("data_format", ["jsonl", "parquet", thorough("csv")])
def test_numbers_that_are_kept(lab: Lab, data_format: str) -> None:
    table = create(lab, data_format)
    put(lab, data_format, *KEPT)
    lab.load("in/*", table)
    columns = "v::String AS v" if data_format == "csv" else "v::String AS v, n[1]::String AS n"
    found = [{key: json.loads(text) for key, text in row.items()} for row in lab.rows(table, columns=columns)]
    assert sorted(found, key=str) == sorted(
        [dict.fromkeys(row, json.loads(one)) for one in KEPT for row in found[:1]], key=str
    )


@pytest.mark.parametrize(
    ("data_format", "number"),
    [
        ("jsonl", "0.1234567890123456789"),
        ("parquet", "18446744073709551616"),
        *(
            thorough("jsonl", number)
            for number in (
                "-9223372036854775809",
                "1234567890123456789.0",
                "1e-400",
                "1.2345678901234567e-310",
                "1e400",
            )
        ),
        thorough("csv", "0.1234567890123456789"),
    ],
)
def test_a_number_that_would_be_rounded_is_refused(lab: Lab, data_format: str, number: str) -> None:
    table = create(lab, data_format)
    put(lab, data_format, f'{{"a":[{{"b":{number}}}]}}')
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "column ", number)):
        lab.load("in/*", table)
    assert lab.rows(table) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"a":[true,"x"]}',
        '{"a.b":1}',
        *map(
            thorough,
            (
                '{"a":[["x"],[true]]}',
                '{"a":[{"b":["true",null,true]}]}',
                r'{"a":[{"b\u002Ec":1}]}',
            ),
        ),
    ],
)
def test_what_would_become_something_else_is_refused(lab: Lab, text: str) -> None:
    table = create(lab, "jsonl")
    put(lab, "jsonl", text)
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "column ", "would not all stay")):
        lab.load("in/*", table)
    assert lab.rows(table) == []


def test_lists_and_names_that_stay(lab: Lab) -> None:
    kept = [
        '{"a":[true,false,null,1,[1.5]],"b":[{"c":true},{"d":1}],"e":1e20,"f":1234567890123456}',
        r'{"a":"[true, 1]","b":"a.b\": ","c":[1.5,2,"x"],"d":[true,[1]]}',
    ]
    table = create(lab, "jsonl")
    put(lab, "jsonl", *kept)
    lab.load("in/*", table)
    found = [json.loads(row["v"]) for row in lab.rows(table, columns="v::String AS v")]
    assert sorted(found, key=str) == sorted(map(json.loads, kept), key=str)
    put(lab, "jsonl", '{"a.b":1}')
    names = {"json_type_escape_dots_in_keys": 1}
    lab.load("in/*", table, task_id="dots", mode="replace_table", settings=names)
    rows = lab.query(f"SELECT v::String AS v FROM {table}", settings=names)
    assert rows == [{"v": '{"a.b":1}'}]


UNTYPED = (
    "v Dynamic, l Array(Dynamic), m Map(String, Dynamic), t Tuple(x Dynamic),"
    " s Array(Tuple(String, Nullable(String))), k LowCardinality(String)"
)


@pytest.mark.every_case
def test_untyped_values(engine: tuple[float, Sandbox], monkeypatch: pytest.MonkeyPatch) -> None:
    version, sandbox = engine
    if version < 25:
        pytest.skip("24.8 has Dynamic columns only as an experiment")
    lab = lab_in(sandbox, monkeypatch)
    lab.connect_one_node()
    lab.query(
        f"CREATE TABLE {lab.database}.t (n UInt8, {UNTYPED}) ENGINE = MergeTree ORDER BY n",
    )
    table = f"{lab.database}.t"
    texts = {
        "12345678900e-4": "(1234567.89)",
        "null": "(NULL)",
        '"1e400"': "('1e400')",
        r'"\ud83d\ude00 \ud7ff inf"': "('😀 \ud7ff inf')",
        '["inf"]': "(['inf'])",
        '{"inf": [null]}': "(([NULL]))",
        "true": "(true)",
    }

    def row(n: int, value: str, text: str = '"x"') -> str:
        return (
            f'{{"n":{n},"v":{value},"l":[{value}],"m":{{"k":{value}}},"t":{{"x":{value}}},'
            f'"s":[[{text},null]],"k":{text}}}\n'
        )

    lab.put("in/a.jsonl", "".join(row(n, value) for n, value in enumerate(texts)).encode())
    lab.load("in/*", table)
    shown = ("v", "l[1]", "m['k']", "t.x")
    columns = ", ".join(f"replace(toString(tuple({one})), '8900000001', '89') AS `{one}`" for one in shown)
    rows = lab.rows(f"{table} ORDER BY n", columns=columns)
    assert rows == [dict.fromkeys(shown, text) for text in texts.values()]
    bad = [
        row(0, "1").replace(f'"{name}":{begin}1', f'"{name}":{begin}{value}')
        for name, begin in (("v", ""), ("l", "["), ("m", '{"k":'), ("t", '{"x":'))
        for value in ("-1e400", '["inf", 1e400]', r'"\udc00"', r'{"a":["\udfff"]}')
    ]
    bad += [
        row(0, "1").replace('"s":[["x"', r'"s":[["x\udc00"'),
        row(0, "1").replace('"k":"x"', r'"k":"\uDFFF"'),
    ]
    for number, line in enumerate(bad):
        lab.put(f"bad{number}/a.jsonl", line.encode())
        with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "column ")):
            lab.load(f"bad{number}/*", table, task_id=f"bad{number}")
    assert len(lab.rows(table)) == len(texts)


@pytest.mark.thorough
def test_objects_that_are_missing(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "id Int64, v JSON, w Nullable(JSON), n Array(JSON)")
    lab.put("in/a.jsonl", b'{"id":1}\n{"id":2,"v":null,"w":null,"n":[]}\n{"id":3,"v":{},"w":{"a":1},"n":[{}]}\n')
    lab.load("in/*", table)
    found: list[dict[str, Any]] = sorted(lab.rows(table), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "v": {}, "w": None, "n": []},
        {"id": 2, "v": {}, "w": None, "n": []},
        {"id": 3, "v": {}, "w": {"a": 1}, "n": [{}]},
    ]


@pytest.mark.parametrize("kind", ["JSON(a Int32)", thorough("JSON(SKIP a)"), thorough("Array(JSON(a Int32))")])
def test_typed_paths_of_text_in_typed_files_are_refused(lab: Lab, kind: str) -> None:
    lab.connect_one_node()
    table = lab.create("t", f"v {kind}")
    text = '{"a":3.7}'
    lab.put_parquet("in/a.parquet", {"v": [[text] if kind.startswith("Array") else text]})
    with pytest.raises(ChS3Error, match=coded("type-not-convertible", "typed paths")):
        lab.load("in/*", table)


def test_whole_objects_keep_their_numbers(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "v JSON")
    lab.put("in/a.jsonl", b'{"a":0.25}\n')
    lab.load("in/*", table, data_format="JSONAsObject", select={"v": "json"})
    assert lab.rows(table) == [{"v": {"a": 0.25}}]
    lab.put("bad/a.jsonl", b'{"a":0.1234567890123456789}\n')
    with pytest.raises(ChS3Error, match=coded("value-does-not-fit", "0.1234567890123456789")):
        lab.load("bad/*", table, data_format="JSONAsObject", select={"v": "json"}, task_id="bad")


def test_texts_next_to_values_of_other_types(lab: Lab) -> None:
    lab.connect_one_node()
    columns = "n Int32, t Tuple(a Nullable(Int32), b String, c Enum8('x' = 1)), f Nullable(FixedString(2))"
    table = lab.create("t", columns)
    lab.put(
        "in/a.jsonl",
        b'{"n":1,"t":{"a":1,"b":"q","c":"x"},"f":"ab"}\n{"n":2,"t":{"a":null,"b":"","c":"x"},"f":null}\n',
    )
    lab.load("in/*", table)
    assert lab.rows(f"{table} ORDER BY n") == [
        {"n": 1, "t": {"a": 1, "b": "q", "c": "x"}, "f": "ab"},
        {"n": 2, "t": {"a": None, "b": "", "c": "x"}, "f": None},
    ]
