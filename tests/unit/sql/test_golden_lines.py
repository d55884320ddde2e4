"""The statements of a load that sets bad rows aside, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql import line_queries
from airflow_provider_ch_s3.table.bad_rows import CSV, JSON, LineColumn, LineFormat
from airflow_provider_ch_s3.table.target import TableColumn, TableName
from tests.unit.sql.test_golden_load import CLUSTER, KEYS, UNSAFE, source

TABLE = TableName(database="it's", table="a`b")
LINES = TableName(database="it's", table="lines`")
FEED = TableName(database="it's", table="feed`")
TYPES = {
    "id": "UInt8",
    "it's": "String",
    "tail`num": "LowCardinality(Nullable(String))",
    "code": "FixedString(2)",
    "kind": "Enum8('it\\'s' = 1)",
    "day": "Nullable(Date)",
    "old": "Date32",
    "at": "DateTime('UTC')",
    "fine": "DateTime64(3)",
    "price": "Decimal(9, 2)",
    "ratio": "Float32",
    "huge": "UInt256",
    "dt": "Date",
}
COLUMNS = tuple(
    LineColumn(
        column=TableColumn(name=name, type=kind), position=0 if name == "dt" else position, in_path=name == "dt"
    )
    for position, (name, kind) in enumerate(TYPES.items(), 1)
)
LINES_OF_CSV = LineFormat(data_format=CSV, columns=COLUMNS, header=("id", "it's"), field_count=12, delimiter=";")
PLAIN = LineFormat(data_format=CSV, columns=COLUMNS[:1], field_count=1)
LINES_OF_JSON = LineFormat(data_format=JSON, columns=COLUMNS[:3])
FILES = source(KEYS).read_with(max_threads=1)
insert = partial(line_queries.render_insert_lines, lines=LINES)
rejected = partial(line_queries.render_feed_bad_rows, FEED, LINES, TABLE, load_id="ch-s3-it's", query_id="q'1")

CASES: dict[str, Statement] = {
    "create_bad_row_table_cluster": line_queries.render_create_bad_row_table(TABLE, CLUSTER, is_replicated=True),
    "create_bad_row_table_here": line_queries.render_create_bad_row_table(TABLE, None, is_replicated=False),
    "create_lines_cluster": line_queries.render_create_lines(LINES, CLUSTER),
    "create_counted_cluster": line_queries.render_create_counted(TABLE, CLUSTER),
    "feed_counted_cluster": line_queries.render_feed_counted(FEED, LINES, TABLE, CLUSTER, line_format=LINES_OF_CSV),
    "feed_counted_json": line_queries.render_feed_counted(FEED, LINES, TABLE, None, line_format=LINES_OF_JSON),
    "feed_accepted_csv": line_queries.render_feed_accepted(FEED, LINES, TABLE, CLUSTER, line_format=LINES_OF_CSV),
    "feed_accepted_json": line_queries.render_feed_accepted(FEED, LINES, TABLE, None, line_format=LINES_OF_JSON),
    "feed_bad_rows_csv": rejected(None, line_format=LINES_OF_CSV),
    "feed_bad_rows_json": rejected(CLUSTER, line_format=LINES_OF_JSON),
    "insert_lines_cluster": insert(FILES, cluster=CLUSTER, spans_cluster=True, line_format=LINES_OF_CSV),
    "insert_lines_single": insert(
        UNSAFE.read_with(max_threads=1), cluster=None, spans_cluster=False, line_format=PLAIN
    ),
    "insert_lines_json": insert(FILES, cluster=None, spans_cluster=False, line_format=LINES_OF_JSON),
    "read_first_line_single": line_queries.render_read_first_line(source(KEYS).read_with(max_threads=1)),
    "count_lines_cluster": line_queries.render_count_lines(TABLE, CLUSTER),
    "count_bad_rows_cluster": line_queries.render_count_bad_rows(TABLE, CLUSTER),
    "read_bad_rows_cluster": line_queries.render_read_bad_rows(TABLE, CLUSTER, limit_rows=10),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


@pytest.mark.parametrize("name", CASES)
def test_secrets_travel_beside_the_text(name: str) -> None:
    assert "SECRET" not in CASES[name].text
