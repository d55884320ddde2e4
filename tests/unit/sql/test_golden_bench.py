"""The statements of the benchmark, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.table.target import TableName
from ch_s3_lab.bench import queries

TABLE = TableName(database="it's", table="a`b")
ACCESS = S3Access(endpoint_url="http://store:9000", access_key="AKIA", secret_key="SECRET", parameter_prefix="s3_")

CASES: dict[str, Statement] = {
    "write_bench_file_keys": queries.render_write_bench_file(
        ACCESS,
        "bucket/events/0.csv.gz",
        {"id": ("UInt64", "number"), "it's": ("String", "concat('row ', toString(number % row_count))")},
        first=10,
        count=5,
        row_count=20,
    ),
    "create_bench_table_keys": queries.render_create_bench_table(
        TABLE,
        "it's",
        columns={"id": "UInt64", "name": "LowCardinality(String)"},
        engine="ReplacingMergeTree",
        order_by=("id", "name"),
        partition_by="toDate(id)",
        storage_policy="it's",
    ),
    "create_bench_table_none": queries.render_create_bench_table(
        TABLE, None, columns={"id": "UInt64"}, engine="Null"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


def test_secrets_travel_beside_the_text() -> None:
    statement = CASES["write_bench_file_keys"]
    assert "SECRET" not in statement.text
    assert statement.parameters == {"s3_access_key": "AKIA", "s3_secret_key": "SECRET"}
