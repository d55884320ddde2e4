"""The statements that create a table from files, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql import table_queries
from airflow_provider_ch_s3.table.new_table import NewColumn, NewTable
from airflow_provider_ch_s3.table.target import Distribution, TableName
from tests.unit.sql.places import at_both
from tests.unit.sql.test_golden_load import CLUSTER, KEYS, TEXT, UNSAFE, source

NAME = TableName(database="it's", table="a`b")
LOCAL = TableName(database="it's", table="a`b_local")
SHARDS = Distribution(cluster=CLUSTER, local=LOCAL, sharding_key="cityHash64(id)")
FULL = NewTable(
    name=NAME,
    local=LOCAL,
    columns=(
        NewColumn(name="id", type="UInt64 CODEC(Delta, ZSTD)"),
        NewColumn(name="tail`num", type="LowCardinality(String)"),
        NewColumn(name="dt", type="Date", in_path=True),
    ),
    engine="ReplacingMergeTree(id)",
    order_by=("dt", "lower(`tail\\`num`)"),
    partition_by="toYYYYMM(dt)",
    settings={"storage_policy": "it's", "index_granularity": 4096},
    distribution=SHARDS,
)
BARE = replace(FULL, name=LOCAL, engine="MergeTree", order_by=(), partition_by="", settings={}, distribution=None)
FILES = TEXT.files
LIMITS = {"limit_rows": 10, "limit_distinct": 9}
FORMS = {"Int64": "^[0-9]+$", "Float64": "it's"}

CASES: dict[str, Statement] = {
    "observe_values_text": table_queries.render_observe_values(
        TEXT.read_with(max_threads=1), FILES, ["id", "tail`num"], forms=FORMS, limit_rows=10, limit_distinct=9
    ),
    "observe_values_null_words": table_queries.render_observe_values(
        TEXT.read_with(max_threads=1),
        FILES[:1],
        ["id"],
        forms=FORMS,
        limit_rows=10,
        limit_distinct=9,
        null_words=["NA", "it's"],
    ),
    "observe_values_unsafe_path": table_queries.render_observe_values(
        UNSAFE.read_with(max_threads=1), UNSAFE.files[:1], ["id"], forms=FORMS, limit_rows=10, limit_distinct=9
    ),
    "count_uneven_text": table_queries.render_count_uneven(
        TEXT.read_with(max_threads=1), FILES, [("id", "tail`num")], limit_rows=10
    ),
    "count_nulls_cluster": table_queries.render_count_nulls(source(KEYS).read_with(max_threads=1), CLUSTER),
    "count_nulls_single": table_queries.render_count_nulls(source(KEYS), None),
    "create_table_full": table_queries.render_create_table(FULL, CLUSTER),
    "create_table_bare": table_queries.render_create_table(BARE, None),
    "create_distributed_key": table_queries.render_create_distributed(NAME, SHARDS, CLUSTER),
    "create_distributed_no_key": table_queries.render_create_distributed(
        NAME, replace(SHARDS, sharding_key=""), None
    ),
    **at_both("add_columns_cluster", table_queries.render_add_columns, NAME, columns=FULL.columns),
    "check_types_two": table_queries.render_check_types(["UInt8", "Enum8('it\\'s' = 1)"]),
    "copy_table_here": table_queries.render_copy_table("CREATE TABLE d.t (`a` Int8) ENGINE = MergeTree ORDER BY a"),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


@pytest.mark.parametrize("name", CASES)
def test_secrets_travel_beside_the_text(name: str) -> None:
    assert "SECRET" not in CASES[name].text


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(replace(BARE, engine="MergeTree ORDER BY a SETTINGS b = (SELECT 1)"), id="engine"),
        pytest.param(replace(BARE, partition_by="a) ORDER BY (SELECT 1"), id="partition"),
        pytest.param(replace(BARE, order_by=("a; DROP TABLE b",)), id="key"),
        pytest.param(replace(BARE, columns=(NewColumn(name="a", type="Int8) ENGINE = Log --"),)), id="type"),
        pytest.param(replace(BARE, columns=(NewColumn(name="a", type="Int8, b Int8"),)), id="two-types"),
        pytest.param(replace(BARE, settings={"a = 1, b": 1}), id="setting"),
    ],
)
def test_hostile_wishes_reach_no_statement(wrong: NewTable) -> None:
    with pytest.raises(ConfigError):
        table_queries.render_create_table(wrong, None)
