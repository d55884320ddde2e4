"""The loads of docs/recipes.md as printed, with tables and files that fit the recipes.

``tests/airflow/test_recipes.py`` imports each DAG of the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow.sdk.execution_time.context import MacrosAccessor

from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.failures import own_errors
from tests.sandbox.conftest import Lab, bag
from tests.sandbox.written import parquet_file

pytestmark = [pytest.mark.sandbox, pytest.mark.thorough]

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
ORDERS, ORDER = "id UInt32, item String", b"id,item\n1,a\n"
SALES = {"sales/dt=2026-01-15/a.csv": b"id\n1\n2\n", "sales/dt=2026-01-16/a.csv": b"id\n3\n"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a recipe needs, and what becomes of it.

    :param tables: name → columns, and the engine if another than ``MergeTree ORDER BY tuple()``.
    :param rows: the rows of the first table afterwards, as far as ``columns`` go.
    :param inserted: an INSERT before the load.
    :param view: creates a materialized view.
    :param others: the rows of further tables afterwards.
    """

    tables: Mapping[str, tuple[str, ...]]
    files: Mapping[str, bytes]
    rows: list[dict[str, Any]]
    columns: str = "*"
    inserted: str = ""
    view: str = ""
    others: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)


def changes(**columns: list[Any]) -> bytes:
    at = pa.array([datetime(2026, 1, 15)] * len(columns["id"]), pa.timestamp("s"))
    return parquet_file(pa.table({**columns, "updated_at": at}))


RECIPES = {
    "A file came late": Recipe(
        tables={"events": ("id UInt32, dt Date",)},
        files={f"events/dt=2026-01-{day}/a.csv": f"id\n{day}\n".encode() for day in (12, 13, 15)},
        rows=[{"id": 13}, {"id": 15}],
        columns="id",
    ),
    "A delivered file was corrected": Recipe(
        tables={"sales": ("id UInt32, dt Date, source_file String, load_id String",)},
        files=SALES,
        rows=[{"id": 1}, {"id": 2}],
        columns="id",
    ),
    "Update and delete rows by key": Recipe(
        tables={"customers": ("id Int64, name String, updated_at DateTime, dt Date", "MergeTree ORDER BY id")},
        files={"changes/dt=2026-01-15/a.parquet": changes(id=[1, 2], name=["a", "b"], op=["I", "D"])},
        inserted="INSERT INTO {database}.customers VALUES (2, 'old', '2026-01-01 00:00:00', '2026-01-15')",
        rows=[{"id": 1, "name": "a"}],
        columns="id, name",
    ),
    "From which file is this row?": Recipe(
        tables={"orders": (f"{ORDERS}, source_file String, loaded_at DateTime, load_id String",)},
        files={"orders/2026/a.csv": ORDER},
        rows=[{"id": 1, "file": "orders/2026/a.csv"}],
        columns="id, substring(source_file, position(source_file, 'orders')) AS file",
    ),
    "Feed my materialized views": Recipe(
        tables={"orders": (ORDERS,), "items": ("item String, n UInt64", "SummingMergeTree ORDER BY item")},
        files={"orders/2026/a.csv": ORDER},
        view="CREATE MATERIALIZED VIEW {database}.v TO {database}.items AS"
        " SELECT item, count() AS n FROM {database}.orders GROUP BY item",
        rows=[{"id": 1, "item": "a"}],
        others={"items": [{"item": "a", "n": 1}]},
    ),
    "CSV with semicolons and decimal commas": Recipe(
        tables={"german": ("name String, amount Decimal(9, 2)",)},
        files={"german/a.csv": "Käse;1.234,50\n".encode("windows-1252")},
        rows=[{"name": "Käse", "amount": 1234.5}],
        columns="name, toFloat64(amount) AS amount",
    ),
    "Load the good rows, and keep the bad ones": Recipe(
        tables={"orders": (ORDERS,)},
        files={"orders/2026/a.csv": b"id,item\n" + b"1,a\n" * 199 + b"x,b\n"},
        rows=[{"id": 1, "item": "a"}] * 199,
    ),
    "The files have a new column": Recipe(
        tables={"orders": (ORDERS,)},
        files={"orders/2026/a.csv": b"id,item,price\n1,a,0.5\n"},
        rows=[{"id": 1, "item": "a", "price": 0.5}],
    ),
    "Check rows before anybody sees them": Recipe(
        tables={"sales": ("id UInt32, dt Date",)}, files=SALES, rows=[{"id": 1}, {"id": 2}], columns="id"
    ),
    "Move or delete files after the load": Recipe(
        tables={"orders": (ORDERS,)}, files={"inbox/a.csv": ORDER}, rows=[{"id": 1, "item": "a"}]
    ),
}


@pytest.mark.parametrize("heading", RECIPES)
def test_a_recipe_loads(lab: Lab, heading: str) -> None:
    recipe = RECIPES[heading]
    for name, definition in recipe.tables.items():
        lab.create(name, *definition)
    if recipe.inserted:
        lab.query(recipe.inserted.format(database=lab.database))
    if recipe.view:
        lab.ddl(recipe.view.format(database=lab.database))
    for key, body in recipe.files.items():
        lab.put(key, body)
    for operator in operators(lab, heading):
        context = lab.context(operator)
        day = datetime(2026, 1, 15, tzinfo=UTC)
        operator.render_template_fields({**context, "data_interval_start": day, "macros": MacrosAccessor()})
        with own_errors():
            operator.execute(context)
    for name, rows in {next(iter(recipe.tables)): recipe.rows, **recipe.others}.items():
        columns = recipe.columns if rows is recipe.rows else "*"
        assert bag(lab.rows(f"{lab.database}.{name}", columns=columns)) == bag(rows)


def operators(lab: Lab, heading: str) -> list[Any]:
    """The tasks of a recipe, with the connections and the bucket of the test."""
    pattern = rf"^## {re.escape(heading)}\n.*?^```python\n(.*?)^```"
    found = re.search(pattern, PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found, heading
    with DAG("recipe", schedule=None) as dag:
        exec(found[1].replace("s3://shop/", lab.uri("")), {})
    for operator in dag.tasks:
        assert isinstance(operator, S3ToClickHouseOperator)
        operator.clickhouse_conn_id, operator.aws_conn_id = "ch", "aws"
    return dag.tasks
