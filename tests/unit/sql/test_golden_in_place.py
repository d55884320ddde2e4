"""The statement of a query over files in place; ``pytest --update-golden`` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql.export_queries import render_select_files
from airflow_provider_ch_s3.tuning import IN_PLACE_RULES, InPlaceFacts, ServerSetting, plan_query
from airflow_provider_ch_s3.tuning.rules import KEPT
from tests.unit.sql.test_golden_load import COLLECTION, KEYS, UNSAFE, source

SETTINGS = {"max_threads": 8}
SQL = "SELECT count() AS n FROM {files} WHERE id > 0 -- {not: a parameter}"

CASES: dict[str, Statement] = {
    "select_files_keys": render_select_files(
        source(KEYS).read_with(**SETTINGS), SQL, structure="auto", limit_rows=11
    ),
    "select_files_described": render_select_files(
        source(KEYS).read_with(**SETTINGS), SQL, structure="auto", limit_rows=11, is_described=True
    ),
    "select_files_twice": render_select_files(
        source(COLLECTION).read_with(**SETTINGS),
        "SELECT * FROM {files} UNION ALL SELECT * FROM {files}",
        structure="`id` Int8",
        limit_rows=11,
    ),
    "select_files_path_filter": render_select_files(
        UNSAFE.read_with(**SETTINGS), SQL, structure="auto", limit_rows=11
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


@pytest.mark.parametrize("name", CASES)
def test_secrets_travel_beside_the_text(name: str) -> None:
    statement = CASES[name]
    assert "SECRET" not in statement.text
    assert re.findall(r"\{(\w+):String\}", statement.text) == list(statement.parameters)


def test_threads_for_reading_in_place() -> None:
    server = {rule.name: ServerSetting(value="other") for rule in (*IN_PLACE_RULES, *KEPT)}
    facts = InPlaceFacts(vcpus=8, data_format="Parquet")
    sent = plan_query(IN_PLACE_RULES, facts, server=server, operator={}, connection={}).sent
    assert (sent["max_threads"], sent["s3_throw_on_zero_files_match"]) == (16, 1)
