"""What the driver adds to a statement that other nodes answer, too."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from unittest.mock import Mock

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.hooks.driver import ClientKind, pin_settings, whole_text
from airflow_provider_ch_s3.sql.load_queries import render_running_queries
from airflow_provider_ch_s3.sql.server_queries import render_read_session, render_read_settings
from airflow_provider_ch_s3.sql.staging_queries import render_create_held
from airflow_provider_ch_s3.table.target import TableName
from tests.failures import coded

WHOLE = {
    *("limit", "offset", "additional_table_filters", "additional_result_filter", "final", "use_query_cache"),
    *("extremes", "apply_deleted_mask", "read_overflow_mode", "read_overflow_mode_leaf", "timeout_overflow_mode"),
    *("timeout_overflow_mode_leaf", "result_overflow_mode", "sort_overflow_mode", "group_by_overflow_mode"),
    *("distinct_overflow_mode", "set_overflow_mode", "join_overflow_mode", "transfer_overflow_mode"),
    *("distributed_group_by_no_merge", "empty_result_for_aggregation_by_empty_set"),
    *("aggregate_functions_null_for_empty", "count_distinct_implementation", "skip_unavailable_shards"),
    *("ignore_cold_parts_seconds", "allow_experimental_parallel_reading_from_replicas"),
    *("prefer_column_name_to_alias", "join_use_nulls", "transform_null_in", "group_by_use_nulls"),
    *("cast_keep_nullable", "data_type_default_nullable", "asterisk_include_alias_columns"),
    *("asterisk_include_materialized_columns", "describe_compact_output", "describe_include_subcolumns"),
    *("describe_include_virtual_columns", "describe_extend_object_types", "force_index_by_date", "force_primary_key"),
    *("force_optimize_projection", "force_optimize_projection_name", "force_optimize_skip_unused_shards"),
    "compile_aggregate_expressions",
    *("schema_inference_use_cache_for_s3", "schema_inference_use_cache_for_azure"),
    *("schema_inference_use_cache_for_url", "use_cache_for_count_from_files"),
}
GOLDEN = Path(__file__).parents[2] / "golden"
TABLE = TableName(database="d", table="t")
QUERY = "SELECT 1\nFROM clusterAllReplicas('c', system.one)\nSETTINGS "


def test_other_nodes_are_told_what_keeps_answers_whole() -> None:
    statement = render_running_queries("ch-s3-", "c")
    text = whole_text(statement)
    query, _, clause = text.rpartition("\nSETTINGS ")
    names = [one.partition(" = ")[0] for one in clause.split(", ")]
    assert set(names) == WHOLE
    assert len(names) == len(WHOLE)
    assert query == statement.text


def test_a_node_that_is_down_is_missing_from_no_answer() -> None:
    golden = {path.name: path.read_text() for path in GOLDEN.glob("*.sql")}
    asking = {name: text for name, text in golden.items() if "FROM cluster" in text}
    sent = {
        name: whole_text(Statement(text=text, reads_profiles=name == "read_settings_cluster.sql"))
        for name, text in asking.items()
    }
    said = {name for name, text in sent.items() if "skip_unavailable_shards = " in text}
    assert len(said) > 60
    assert asking.keys() - said == {"create_held_on_cluster.sql"}


def test_other_nodes_are_told_what_only_newer_servers_know() -> None:
    clause = whole_text(Statement(text=f"{QUERY}max_threads = 1"), {"select": "", "page": 0}).rpartition("\n")[2]
    assert clause.endswith(" select = '', page = 0, max_threads = 1")


@pytest.mark.parametrize(("name", "value"), [("filter", "n < 7"), ("page", "2"), ("run_query_in_background", "1")])
def test_a_profile_that_makes_other_statements_is_refused(name: str, value: str) -> None:
    kind = ClientKind(address=None, keeps_final=False)
    known = {"select": Mock(value="", readonly=0), name: Mock(value=value, readonly=0)}
    client = Mock(server_settings=known, params={})
    with pytest.raises(ConfigError, match=coded("profile-fixes-setting", f"'{name}'", f"'{value}'")):
        pin_settings(client, kind)
    client.server_settings.pop(name)
    pin_settings(client, kind)
    assert client.params["compile_aggregate_expressions"] == "0"
    assert name not in client.params


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(render_running_queries("ch-s3-", None), id="one-server"),
        pytest.param(render_read_session(), id="without-settings"),
        pytest.param(render_read_settings("c", nodes=3), id="reads-profiles"),
        pytest.param(
            Statement(text="INSERT INTO FUNCTION cluster('c', 'd', 't')\nSELECT 1\nSETTINGS max_threads = 1"),
            id="load",
        ),
        pytest.param(render_create_held(TABLE, TABLE, "c", on="c"), id="view"),
    ],
)
def test_other_statements_stay_as_they_are(statement: Statement) -> None:
    assert whole_text(statement) == statement.text


def test_what_a_statement_says_itself_stays() -> None:
    statement = Statement(text=f"{QUERY}apply_deleted_mask = 0")
    assert whole_text(statement).endswith(" apply_deleted_mask = 0")
    assert whole_text(statement).count("apply_deleted_mask") == 1
    assert " final = 0," in whole_text(statement)
    assert " final = 0," not in whole_text(dataclasses.replace(statement, keeps_final=True))
