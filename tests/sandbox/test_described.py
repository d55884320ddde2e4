"""The type of the table's column decides where it is given: the server may not refuse what the column holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.conftest import Lab

pytestmark = pytest.mark.sandbox


def put_rows(lab: Lab, key: str, rows: list[str]) -> None:
    lab.put(key, "".join(f"{row}\n" for row in rows).encode())


@pytest.mark.every_case
def test_what_the_column_holds_is_loaded(lab: Lab) -> None:
    lab.connect_one_node()
    table = lab.create("t", "n Nullable(UInt32), v Nullable(String), late Nullable(UInt32)")
    values: list[Any] = ["text", {"a": 1}, [1, "x"], True, 1.5, None]
    rows = [json.dumps({"n": n, "v": value}) for n, value in enumerate(values)]
    put_rows(lab, "in/1.jsonl", [*rows, '{"n": 6, "v": 2942420318599003496251392}'])
    put_rows(lab, "in/2.jsonl", ['{"n": 7, "v": 2942420318599003496251392}'] * 3)
    put_rows(lab, "in/3.jsonl", ['{"n": 8}'] * 25_001 + ['{"n": 9, "late": 5}'])
    lab.load("in/3.jsonl", table, task_id="late", columns=["n", "late"])
    late = lab.query(f"SELECT n, late FROM {table} WHERE late > 0")
    assert late == [{"n": 9, "late": 5}]
    for number in (1, 2):
        lab.load(f"in/{number}.jsonl", table, task_id=f"t{number}", columns=["n", "v"])
    found = lab.query(f"SELECT DISTINCT n, v FROM {table} WHERE n < 8 ORDER BY n")
    texts = ["text", '{"a": 1}', '[1, "x"]', "true", "1.5", None, *["2942420318599003496251392"] * 2]
    assert found == [{"n": n, "v": text} for n, text in enumerate(texts)]
