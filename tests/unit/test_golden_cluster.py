"""Statements about the cluster, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql.cluster_queries import (
    render_detect_nodes,
    render_read_ddl_entry,
    render_read_node,
    render_read_server,
)
from airflow_provider_ch_s3.sql.link_queries import render_show_queries
from airflow_provider_ch_s3.sql.nodes import all_nodes, on_cluster
from airflow_provider_ch_s3.sql.statement import Statement


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        pytest.param("read_server", render_read_server(), id="read_server"),
        pytest.param("read_node", render_read_node(), id="read_node"),
        pytest.param("read_ddl_entry", render_read_ddl_entry("ch-s3-ddl-'1"), id="read_ddl_entry"),
        pytest.param("show_queries", render_show_queries("ch-s3-'a-0-", "it's"), id="show_queries"),
        pytest.param("detect_nodes_cluster", render_detect_nodes("it's"), id="detect_nodes-cluster"),
        pytest.param("detect_nodes_single", render_detect_nodes(None), id="detect_nodes-single"),
    ],
)
def test_statement_is_as_the_golden_file(
    name: str, statement: Statement, check_golden: Callable[[str, str], None]
) -> None:
    check_golden(name, statement.text)


def test_on_cluster_quotes_the_name() -> None:
    assert on_cluster("a`b") == " ON CLUSTER `a\\`b`"
    assert on_cluster(None) == ""


@pytest.mark.parametrize("table", ["db.t", "system.parts; DROP TABLE x", "system.Parts", "parts"])
def test_all_nodes_takes_system_tables_only(table: str) -> None:
    with pytest.raises(ConfigError, match="not a table of the system database"):
        all_nodes("c", table)
