"""The statements of an export, compared as a whole; ``pytest --update-golden`` writes them anew."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.access import S3Access
from airflow_provider_ch_s3.files.source import FileColumn, SourceSpec
from airflow_provider_ch_s3.sql import export_queries
from airflow_provider_ch_s3.sql.export_queries import ExportFiles
from airflow_provider_ch_s3.table.target import TableName
from tests.unit.sql.places import at_both
from tests.unit.sql.test_golden_load import ASSUMED, COLLECTION, KEYS, ROLE, SETTINGS, TEMPORARY, UNSAFE, source

KEY = "http://s3:9000/flights/it's/part-ch-s3-0-1.parquet"
BY_PARTITIONS = "http://s3:9000/flights/out/{_partition_id}/part-ch-s3-0-1.csv.gz"
QUERY = "SELECT id, dt FROM flights ORDER BY id -- all of them"
TABLE = TableName(database="it's", table="a`b")


def insert(access: S3Access, partition_by: dict[str, str] | None = None) -> Statement:
    address = BY_PARTITIONS if partition_by else KEY
    files = ExportFiles(access=access, address=address, data_format="Parquet", settings=SETTINGS)
    return export_queries.render_insert_export(files, QUERY, partition_by=partition_by or {})


def count(files: SourceSpec) -> Statement:
    columns = (FileColumn(name="id", type="UInt64"),)
    return export_queries.render_count_by_file(replace(files, columns=columns).read_with(s3_retry_attempts=12))


CASES: dict[str, Statement] = {
    "insert_export_keys": insert(KEYS),
    "insert_export_session_token": insert(TEMPORARY),
    "insert_export_named_collection": insert(COLLECTION),
    "insert_export_assumed_role": insert(ASSUMED),
    "insert_export_server_role": insert(ROLE),
    "insert_export_by_partition": insert(KEYS, {"dt": "toDate(at)"}),
    "insert_export_by_partitions": insert(KEYS, {"dt": "toDate(at)", "kind": "if(id = 1, 'it''s', NULL)"}),
    "describe_query_plain": export_queries.render_describe_query(QUERY, {}),
    "describe_query_settings": export_queries.render_describe_query(QUERY, {"max_threads": 1}),
    "count_by_file_keys": count(source(KEYS)),
    "count_by_file_path_filter": count(UNSAFE),
    **at_both("select_table_cluster", lambda cluster: Statement(text=export_queries.select_table(TABLE, cluster))),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


@pytest.mark.parametrize("name", CASES)
def test_secrets_travel_beside_the_text(name: str) -> None:
    statement = CASES[name]
    assert "SECRET" not in statement.text
    assert "AKIA" not in statement.text
    assert re.findall(r"\{(\w+):String\}", statement.text) == list(statement.parameters)


@pytest.mark.parametrize("value", ["1) SELECT 2", "1, 2", "(SELECT 1)"])
def test_a_hostile_folder_reaches_no_statement(value: str) -> None:
    with pytest.raises(ConfigError):
        insert(KEYS, {"dt": value})
