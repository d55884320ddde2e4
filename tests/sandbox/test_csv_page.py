"""The page CSV: its files are loaded by its code, and its expressions give its values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.arguments import Csv
from tests.failures import own_errors
from tests.sandbox.conftest import Lab, bag

pytestmark = pytest.mark.sandbox

PAGE = (Path(__file__).parents[2] / "docs" / "csv.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_file_is_loaded_by_the_code(lab: Lab) -> None:
    (text,) = blocks("text")
    dialect, code = blocks("python")
    lab.put("orders/a.csv", text.encode())
    table = lab.create("orders", "customer String, amount Decimal(18, 2), day Date")
    given: dict[str, Any] = {}
    exec(dialect, given)
    assert isinstance(given["data_format"], Csv)
    exec(code, given)
    load = given["load"]
    load.source, load.table = lab.uri("orders/*.csv"), table
    load.clickhouse_conn_id, load.aws_conn_id = "ch", "aws"
    with own_errors():
        load.execute(lab.context(load))
    rows = [{"customer": "Müller", "amount": "1234.5", "day": "2024-01-31"}]
    rows += [{"customer": "Weber", "amount": "-7", "day": "2024-02-01"}]
    assert bag(lab.rows(table, columns="customer, toString(amount) AS amount, day")) == bag(rows)


def test_the_expressions_give_the_values(lab: Lab) -> None:
    found = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", PAGE, re.MULTILINE)
    assert len(found) == 10
    for text, expression, value in found:
        (row,) = lab.query(f"SELECT toString({expression}) AS value FROM (SELECT '{text}' AS x)")
        assert (text, row["value"]) == (text, value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Kunde;Stück;Betrag\nA;7;1,5\n", id="header"),
        pytest.param("A;7;1,5\n", id="no-header"),
    ],
)
def test_structure_leaves_the_delimiter_to_be_found_out(lab: Lab, text: str) -> None:
    lab.put("in/a.csv", text.encode())
    columns = "Kunde String, `Stück` UInt8, Betrag String"
    table = lab.create("t", columns)
    lab.load("in/*", table, data_format=Csv(structure=columns))
    assert lab.rows(table) == [{"Kunde": "A", "Stück": 7, "Betrag": "1,5"}]
