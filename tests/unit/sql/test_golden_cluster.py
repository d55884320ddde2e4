"""Statements about the cluster, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql.load_queries import render_show_queries
from airflow_provider_ch_s3.sql.nodes import all_nodes, on_cluster
from airflow_provider_ch_s3.sql.server_queries import (
    render_detect_nodes,
    render_read_clocks,
    render_read_ddl_entry,
    render_read_memory,
    render_read_node,
    render_read_server,
)
from tests.failures import coded
from tests.unit.sql.places import at_both

CASES: dict[str, Statement] = {
    "read_server": render_read_server(),
    "read_node": render_read_node(),
    "read_ddl_entry": render_read_ddl_entry("ch-s3-ddl-'1"),
    "show_queries": render_show_queries("ch-s3-'a-0-", "it's"),
    "detect_nodes_cluster": render_detect_nodes("it's"),
    "detect_nodes_here": render_detect_nodes(None),
    **at_both("read_clocks_cluster", render_read_clocks),
    **at_both("read_memory_cluster", render_read_memory),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


def test_on_cluster_quotes_the_name() -> None:
    assert on_cluster("a`b") == " ON CLUSTER `a\\`b`"
    assert on_cluster(None) == ""


@pytest.mark.parametrize("table", ["db.t", "system.parts; DROP TABLE x", "system.Parts", "parts"])
def test_all_nodes_takes_system_tables_only(table: str) -> None:
    with pytest.raises(ConfigError, match=coded("name-invalid")):
        all_nodes("c", table)
