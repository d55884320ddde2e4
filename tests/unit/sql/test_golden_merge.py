"""The statements of a merge by key, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.sql import merge_queries, staging_queries
from airflow_provider_ch_s3.sql.filters import server_sql
from airflow_provider_ch_s3.table.merge_rule import DELETED, MergeRule
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableName
from tests.unit.sql.places import at_both

CLUSTER = "it's"
TARGET = TableName(database="it's", table="a`b")
STAGED = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_8_8")
MERGED = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_8_8_merged")
CHANGES = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_8_8_changes")
RULE = MergeRule(key=("id", "tail`num"), version="dt", deleted="op = 'D'")
UNVERSIONED = MergeRule(key=("id", "tail`num"))
COLUMNS = ["id", "tail`num", "dt", "origin"]
SHARDS = {"it's:9000": 1, "b:9000": 2}
COMMENT = "rows that will be committed to it's.a`b, staged by ch-s3-0123-2-8"
MERGE_TREE = server_sql("MergeTree")

CASES: dict[str, Statement] = {
    **at_both(
        "create_merge_staging_on_cluster",
        merge_queries.render_create_merge_staging,
        STAGED,
        columns=[
            NewColumn(name="id", type="UInt64"),
            NewColumn(name="tail`num", type="String DEFAULT 'it\\'s'"),
            NewColumn(name="dt", type="Date"),
            NewColumn(name="origin", type="Nullable(String)"),
            NewColumn(name=DELETED, type="Bool"),
        ],
        engine=server_sql("MergeTree PARTITION BY dt ORDER BY id SETTINGS index_granularity = 8192"),
        comment=COMMENT,
    ),
    **at_both(
        "create_changes_on_cluster",
        merge_queries.render_create_changes,
        CHANGES,
        key_types=["UInt64", "String"],
        version_type="Date",
        engine=MERGE_TREE,
        comment=COMMENT,
    ),
    **at_both(
        "find_changes_cluster",
        merge_queries.render_find_changes,
        CHANGES,
        STAGED,
        TARGET,
        rule=RULE,
        columns=[],
        shards=SHARDS,
        in_part=merge_queries.is_in_part(RULE.key, 1, 3),
    ),
    **at_both("copy_changes_cluster", merge_queries.render_copy_changes, CHANGES, shards=SHARDS, shard=2),
    **at_both(
        "find_changes_undecided_cluster",
        merge_queries.render_find_changes,
        CHANGES,
        STAGED,
        TARGET,
        rule=RULE,
        columns=COLUMNS,
        shards=SHARDS,
        in_part=merge_queries.is_in_part(RULE.changed_key, 1, 3),
        undecided=True,
    ),
    **at_both("sum_changes_cluster", merge_queries.render_sum_changes, CHANGES),
    "read_doubled": merge_queries.render_read_doubled(CHANGES, rule=RULE, limit_rows=5),
    "delete_dropped": merge_queries.render_delete_dropped(
        MERGED,
        conditions={
            name: merge_queries.is_dropped(CHANGES, RULE, held_in=(0, merge_queries.number_of(name)))
            for name in ("it's", "202402")
        },
    ),
    "count_outside_dropped": staging_queries.render_count_outside(
        MERGED, CLUSTER, condition=merge_queries.is_dropped(CHANGES, RULE)
    ),
    **at_both(
        "insert_winners_cluster",
        merge_queries.render_insert_winners,
        TARGET,
        STAGED,
        rule=RULE,
        columns=COLUMNS,
        condition=merge_queries.is_winner(CHANGES, RULE, SHARDS, is_staged=True, partitions=["it's", "202402"]),
    ),
    "insert_winners_held": merge_queries.render_insert_winners(
        TARGET,
        TARGET,
        CLUSTER,
        rule=RULE,
        columns=COLUMNS,
        condition=merge_queries.is_winner(CHANGES, RULE, SHARDS, is_staged=False),
    ),
    "insert_winners_unversioned": merge_queries.render_insert_winners(
        TARGET,
        STAGED,
        CLUSTER,
        rule=UNVERSIONED,
        columns=COLUMNS,
        condition=merge_queries.is_winner(CHANGES, UNVERSIONED, SHARDS, is_staged=True),
    ),
    "find_changes_unversioned": merge_queries.render_find_changes(
        CHANGES,
        STAGED,
        TARGET,
        CLUSTER,
        rule=UNVERSIONED,
        columns=COLUMNS,
        shards=SHARDS,
        in_part=merge_queries.is_in_part(UNVERSIONED.key, 0, 1),
    ),
    **at_both(
        "count_unmergeable_cluster",
        merge_queries.render_count_unmergeable,
        STAGED,
        condition="`tail\\`num` IS NULL OR isNaN(`id`)",
    ),
    **at_both(
        "read_ambiguous_cluster",
        merge_queries.render_read_ambiguous,
        STAGED,
        rule=RULE,
        columns=COLUMNS,
        limit_rows=5,
        in_part=merge_queries.is_in_part(RULE.key, 1, 3),
    ),
    "read_ambiguous_unversioned": merge_queries.render_read_ambiguous(
        STAGED,
        CLUSTER,
        rule=UNVERSIONED,
        columns=COLUMNS,
        limit_rows=5,
        in_part=merge_queries.is_in_part(UNVERSIONED.key, 0, 1),
    ),
    "try_merge_key": merge_queries.render_try_merge_key(TARGET, rule=RULE),
    "try_merge_key_unversioned": merge_queries.render_try_merge_key(TARGET, rule=UNVERSIONED),
    **at_both("read_sizes_cluster", merge_queries.render_read_sizes, TARGET),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)
