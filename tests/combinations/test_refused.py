"""What the arguments alone tell is refused when the DAG is parsed, with the code in the table."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ChS3Error
from airflow_provider_ch_s3.transfers.azure_blob_to_clickhouse import AzureBlobStorageToClickHouseOperator
from airflow_provider_ch_s3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_ch_s3.transfers.http_to_clickhouse import HttpToClickHouseOperator
from airflow_provider_ch_s3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.combinations.factors import ARGUMENTS, LAKES, Case
from tests.combinations.oracle import key_of
from tests.combinations.together import APART, Apart, apart_of, refused_cases

OPERATORS: dict[str, tuple[Any, str]] = {
    "s3": (S3ToClickHouseOperator, "s3://b"),
    "azure": (AzureBlobStorageToClickHouseOperator, "az://c"),
    "web": (HttpToClickHouseOperator, "https://h"),
    "iceberg": (IcebergToClickHouseOperator, "s3://b/t"),
    "delta": (DeltaToClickHouseOperator, "s3://b/t"),
}
WRITTEN = {*ARGUMENTS, "store", "format"}
"""Factors that a DAG tells; what only tables and files tell is refused by the load."""
LATER = {
    ("checks", "bad_rows"): "only the servers know whether the table of the bad rows exists",
    ("checks", "chunks"): "only a listing tells whether there are several chunks",
}
"""Rows about arguments alone that are refused by the load, with the reason."""


def parse(case: Case) -> str:
    """Make the operator as a DAG does; returns the code of the refusal, '' if there was none."""
    operator, place = OPERATORS[case["store"]]
    key = key_of(case, 1)
    folder, _, name = key.rpartition("/")
    arguments = case.arguments
    if case["store"] in LAKES:
        source: Any = place
        arguments.pop("data_format", None)
    elif case["store"] == "web":
        source = [f"{place}/{key}", f"{place}/{key_of(case, 2)}"]
    else:
        source = f"{place}/{'in/**' if '/' in folder else folder}/*.{name.partition('.')[2]}"
    try:
        operator(task_id="load", table="t", source=source, **arguments)
    except ChS3Error as error:
        return error.code
    return ""


@pytest.fixture(scope="module")
def codes() -> list[tuple[Apart, set[str]]]:
    """Each row of the table, and the codes of its cases when a DAG is parsed."""
    cases = refused_cases()
    return [(one, {parse(case) for case in cases if apart_of(case) is one}) for one in APART]


def test_what_the_arguments_tell_is_refused_when_the_dag_is_parsed(codes: list[tuple[Apart, set[str]]]) -> None:
    wrong = [
        (one.what, found)
        for one, found in codes
        if one.levels.keys() <= WRITTEN and found != {"" if tuple(one.levels) in LATER else one.code}
    ]
    assert wrong == []


def test_nothing_is_refused_with_another_code(codes: list[tuple[Apart, set[str]]]) -> None:
    assert [(one.what, found) for one, found in codes if found - {"", one.code}] == []
