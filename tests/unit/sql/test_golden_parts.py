"""The statements that look at parts and at many loads, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql import load_queries, parts_queries
from airflow_provider_ch_s3.table.target import TableName, TablePartitions
from tests.unit.sql.places import at_both

GOLDEN = Path(__file__).parents[2] / "golden"

ONE = (TableName(database="it's", table="a`b"),)
MANY = (*ONE, TableName(database="it's", table="c"), TableName(database="e", table="c"))
CLUSTER = "it's"
WATCHED = (
    TablePartitions(table=MANY[0], partitions=("201301", "2013-1")),
    TablePartitions(table=MANY[2], partitions=("all",)),
)
WHOLE = tuple(TablePartitions(table=table, partitions=None) for table in MANY)

CASES: dict[str, Statement] = {
    "partition_ids_single": parts_queries.render_partition_ids(MANY[0], ["2024-01-31", "('a',1)"], None),
    "partition_values_cluster": parts_queries.render_partition_values(MANY[0], ["201301", "2013-1"], CLUSTER),
    **at_both("table_nodes_cluster", parts_queries.render_table_nodes, MANY),
    **at_both("watched_parts_whole_cluster", parts_queries.render_watched_parts, WHOLE, by_partition=False),
    **at_both("watched_merges_whole_cluster", parts_queries.render_watched_merges, WHOLE, by_partition=False),
    **at_both("failed_mutations_cluster", parts_queries.render_failed_mutations, MANY),
    **at_both("table_replicas_cluster", parts_queries.render_table_replicas, MANY),
    **at_both("watched_parts_cluster", parts_queries.render_watched_parts, WATCHED, by_partition=True),
    **at_both("watched_merges_cluster", parts_queries.render_watched_merges, WATCHED, by_partition=True),
    **at_both("queued_changes_whole_cluster", parts_queries.render_queued_changes, MANY, by_partition=False),
    **at_both("queued_changes_cluster", parts_queries.render_queued_changes, MANY, by_partition=True),
    **at_both("read_part_changes_cluster", parts_queries.render_read_part_changes, ("a-1", "b-2")),
    "parts_history_cluster": parts_queries.render_parts_history(
        ONE[0], CLUSTER, partitions=("201301", "2013-1"), since=1.5, limit=100
    ),
    "parts_history_single": parts_queries.render_parts_history(ONE[0], None, partitions=None, since=1.5, limit=100),
    **at_both("running_parts_cluster", load_queries.render_running_parts, ["ch-s3-0'1-2-3", "b"]),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


def test_databases_whose_names_differ_in_case_are_all_asked() -> None:
    tables = (TableName(database="Raw", table="a"), TableName(database="raw", table="b"))
    text = parts_queries.render_table_nodes(tables, None).text
    assert "database IN ('Raw', 'raw')" in text
