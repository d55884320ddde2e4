"""The statements of the ledger, the locks, the staging tables and the commit, compared as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.sql import ledger_queries, parts_queries, staging_queries
from airflow_provider_ch_s3.sql.filters import expression, identifier, server_sql
from airflow_provider_ch_s3.table.new_table import NewColumn
from airflow_provider_ch_s3.table.target import TableName
from tests.unit.sql.places import at_both

GOLDEN = Path(__file__).parents[2] / "golden"

CLUSTER = "it's"
TARGET = TableName(database="it's", table="a`b")
STAGING = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_7_7")
RENAMED = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_7_9")
MERGED = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_7_9_merged")
FEED = TableName(database="it's", table="ch_s3_stage_52115f13b013_0123_2_7_9_feed0")
SELECT = server_sql("SELECT id, 'it\\'s' AS s FROM `it's`.ch_s3_stage_52115f13b013_0123_2_7_7")
LEDGER = TableName(database="it's", table="led`ger")
FILES = TableName(database="it's", table="led`ger_files")
LOCK = TableName(database="it's", table="ch_s3_lock_52115f13b013_7")
COMMENT = "airflow-provider-ch-s3: what its loads did, schema 1"
# What a user may have written, and what must stay inside of its quotes.
HOSTILE = "it's\n'); DROP TABLE x; --\\"
CONDITION = "dt = '2013-01-01' OR origin IS NULL"
PARTITION = "20130101-it's"
LOGGED = {"began_at": 1_700_000_000, "margin_seconds": 60, "reach_seconds": 86_400}

EVENT = {
    "target": "it's.a`b",
    "load_id": "ch-s3-0123",
    "generation": 2,
    "attempt": 7,
    "epoch": 7,
    "event": "planned",
    "try_number": 1,
    "detail": '{"dag": "it\'s\\n{x:String}"}',
}
MANIFEST = [
    {"target": "it's.a`b", "path": "flights/it's 1.csv", "etag": '"e1"', "size_bytes": 9, "attempt": 7},
    {"target": "it's.a`b", "path": f"flights/{HOSTILE}", "etag": "e2", "size_bytes": 0, "attempt": 7},
]


TARGET_TEXT = "it's.a`b"


def prune_ledger(cluster: str | None, *, is_last: bool) -> Statement:
    attempts = [("ch-s3-0123", 7), ("ch-s3-4567", 9)]
    return ledger_queries.render_prune_ledger(
        LEDGER, cluster, target=TARGET_TEXT, attempts=attempts, last_epoch=12, is_last=is_last
    )


def of_both(name: str, table: TableName = LEDGER, **values: Any) -> dict[str, Statement]:
    render = getattr(ledger_queries, f"render_{name}")
    return at_both(f"{name}_cluster", render, table, **values)


NAMES = [TARGET_TEXT, "d.earlier"]
OF_TABLE: dict[str, Any] = {"targets": NAMES, "table_uuids": ["u1", "u2"]}
# Look-ups in the ledger.
LOOK_UPS = {
    **of_both("read_events", target=TARGET_TEXT, load_id="ch-s3-0123"),
    "read_events_asked": ledger_queries.render_read_events(
        LEDGER, CLUSTER, target=TARGET_TEXT, load_id="ch-s3-0123", table_uuids=["u1", HOSTILE], attempts={9, 7}
    ),
    "read_events_since": ledger_queries.render_read_events(
        LEDGER, CLUSTER, target=TARGET_TEXT, load_id="ch-s3-0123", attempts={3}, since=5
    ),
    **of_both("read_last_files", FILES, target=TARGET_TEXT, prefix=f"flights/{HOSTILE}", before="flights/z", limit=9),
    **of_both("read_loaded_files", FILES, targets=[TARGET_TEXT], first="flights/a", last=f"flights/{HOSTILE}"),
    "read_loaded_files_named": ledger_queries.render_read_loaded_files(
        FILES, CLUSTER, targets=[TARGET_TEXT], first="flights/a", last=HOSTILE, only=["flights/a", HOSTILE]
    ),
    **of_both("read_commits", **OF_TABLE, attempts=[7, 9]),
    **of_both("read_commits_into", **OF_TABLE, partitions=["all", PARTITION], since=5),
    **of_both(
        "read_replacements",
        **OF_TABLE,
        partitions=["", PARTITION],
        keeping=["append", "undo", "replace_where", "merge", "replace_files"],
        by_partition=["replace_partitions"],
    ),
    "read_replacements_certain": ledger_queries.render_read_replacements(
        LEDGER,
        CLUSTER,
        **OF_TABLE,
        partitions=["", PARTITION],
        keeping=["append", "undo"],
        by_partition=["replace_partitions"],
    ),
    **of_both("read_planned_by", targets=NAMES, attempts=[("ch-s3-0123", 7), (HOSTILE, 9)], dag="d", task=HOSTILE),
    **of_both("read_last_commit", target=TARGET_TEXT),
    **of_both("read_earlier_uuids", target=TARGET_TEXT),
    **of_both("adopt_commits", targets=NAMES, earlier_uuids=["u1", HOSTILE], table_uuids=["u3"], quorum=2),
    **of_both("read_past_reports", target=TARGET_TEXT, since=5, min_volume_bytes=1_048_576),
    **of_both(
        "read_earlier_loads",
        target=TARGET_TEXT,
        dag="d",
        task=HOSTILE,
        map_index=3,
        load_id="ch-s3-0123",
        since=5,
        limit=1_000,
    ),
    **of_both("read_latest_attempts", limit=50),
    "read_latest_attempts_selected": ledger_queries.render_read_latest_attempts(
        LEDGER,
        CLUSTER,
        target=TARGET_TEXT,
        named=HOSTILE,
        load_id=HOSTILE,
        dag=HOSTILE,
        states=["planned", HOSTILE],
        days=7.5,
        after=(1_700_000_000.25, HOSTILE, 7),
        limit=50,
    ),
    **of_both("read_targets", limit=1_000),
    **of_both("read_lock_events", locks=[(TARGET_TEXT, 7), ("d.t", 9)]),
    **of_both("read_recorded_files", FILES, targets=NAMES, limit=1_000),
    "read_recorded_files_selected": ledger_queries.render_read_recorded_files(
        FILES,
        CLUSTER,
        targets=[TARGET_TEXT],
        attempts=[("ch-s3-0123", 7), (HOSTILE, 9)],
        prefix=f"flights/{HOSTILE}",
        after=("flights/b", HOSTILE, "ch-s3-0123", 7),
        limit=1_000,
    ),
    **at_both("find_ledgers_cluster", ledger_queries.render_find_ledgers, COMMENT, limit=1_000),
    **at_both("read_ledger_columns_cluster", ledger_queries.render_read_ledger_columns, [LEDGER, FILES]),
    **at_both("read_locks_cluster", ledger_queries.render_read_locks, ["it's", "d"], "ch_s3_lock_", limit=1_000),
    **of_both("read_history", attempts=[(TARGET_TEXT, "ch-s3-0123", 7), ("d.t", "ch-s3-4567", 9)]),
    **of_both("read_last_locks"),
    **of_both("read_ended_attempts", before_seconds=1_700_000_000.5),
    **of_both("prune_locks", target=TARGET_TEXT, last_epoch=12, before_seconds=1_700_000_000.5),
    **of_both("forget_details", target=TARGET_TEXT, first_open=12, before_seconds=1_700_000_000.5),
}

CASES: dict[str, Statement] = {
    **at_both("read_ledger_comments_cluster", ledger_queries.render_read_ledger_comments, (LEDGER, FILES)),
    **at_both(
        "create_ledger_on_cluster", ledger_queries.render_create_ledger, LEDGER, comment=COMMENT, is_replicated=False
    ),
    "create_ledger_replicated": ledger_queries.render_create_ledger(
        LEDGER, None, comment=COMMENT, is_replicated=True
    ),
    **at_both(
        "create_ledger_files_on_cluster",
        ledger_queries.render_create_ledger_files,
        FILES,
        comment=COMMENT,
        is_replicated=False,
    ),
    "create_ledger_files_replicated": ledger_queries.render_create_ledger_files(
        FILES, None, comment=COMMENT, is_replicated=True
    ),
    "write_ledger_event": ledger_queries.render_write_event(LEDGER, EVENT, quorum=2),
    "write_ledger_announcement": ledger_queries.render_write_announcement(LEDGER, "ch-s3-0123456789abcdef0123"),
    "write_ledger_names": ledger_queries.render_write_names(
        LEDGER, [{"target": "u1", "event": "named", "name": HOSTILE}], quorum=2
    ),
    "write_ledger_files": ledger_queries.render_write_files(FILES, MANIFEST, quorum=0),
    **LOOK_UPS,
    **at_both(
        "read_attempt_files_cluster",
        ledger_queries.render_read_attempt_files,
        FILES,
        target="it's.a`b",
        attempt=("ch-s3-0123", 7),
        after=f"flights/{HOSTILE}",
        limit=100,
    ),
    "count_by_folder_cluster": ledger_queries.render_count_by_folder(
        FILES, CLUSTER, target="it's.a`b", attempts=[("ch-s3-0123", 7), ("ch-s3-4567", 9)], limit=100
    ),
    "prune_ledger_last": prune_ledger(None, is_last=True),
    **at_both("prune_ledger_on_cluster", prune_ledger, is_last=False),
    **at_both("read_uuids_cluster", ledger_queries.render_read_uuids, ["u1", "u2"]),
    **at_both(
        "prune_ledger_files_on_cluster",
        ledger_queries.render_prune_ledger_files,
        FILES,
        target="it's.a`b",
        attempts=[("ch-s3-0123", 7), ("ch-s3-4567", 9)],
    ),
    "create_lock": ledger_queries.render_create_lock(LOCK, owner=HOSTILE),
    "drop_lock": ledger_queries.render_drop_lock(LOCK),
    **at_both("read_tables_cluster", ledger_queries.render_read_tables, "it's", ["ch_s3_lock_5_", HOSTILE]),
    **at_both("create_staging_on_cluster", staging_queries.render_create_staging, STAGING, TARGET, comment=HOSTILE),
    "create_staging_replicated": staging_queries.render_create_staging(
        STAGING,
        TARGET,
        CLUSTER,
        comment="rows",
        engine=server_sql("ReplicatedReplacingMergeTree(version) ORDER BY id SETTINGS index_granularity = 8192"),
    ),
    **at_both("read_replicas_cluster", parts_queries.render_read_replicas, TARGET),
    **at_both("read_zero_copy_cluster", parts_queries.render_read_zero_copy, TARGET),
    **at_both("read_replication_queue_cluster", parts_queries.render_read_replication_queue, TARGET),
    **at_both("read_fetches_cluster", parts_queries.render_read_fetches, TARGET),
    **at_both("read_view_cluster", staging_queries.render_read_view, TARGET),
    **at_both("create_feed_on_cluster", staging_queries.render_create_feed, FEED, STAGING, select=SELECT),
    "create_held_on_cluster": staging_queries.render_create_held(FEED, STAGING, CLUSTER, on=CLUSTER),
    **at_both("drop_held_on_cluster", staging_queries.render_drop_held, FEED),
    **at_both("rename_staging_on_cluster", staging_queries.render_rename_staging, STAGING, RENAMED),
    **at_both("drop_staging_on_cluster", staging_queries.render_drop_staging, STAGING),
    **at_both("read_partitions_cluster", staging_queries.render_read_partitions, TARGET),
    **at_both(
        "read_some_partitions_cluster", staging_queries.render_read_partitions, TARGET, partitions=["a", PARTITION]
    ),
    **at_both("count_target_cluster", staging_queries.render_count_target, TARGET),
    **at_both("read_blocks_cluster", staging_queries.render_read_blocks, [STAGING, TARGET]),
    **at_both(
        "read_digests_cluster",
        staging_queries.render_read_digests,
        TARGET,
        partitions=["a", PARTITION],
        digest_length=8,
    ),
    **at_both(
        "read_broken_parts_cluster", staging_queries.render_read_broken_parts, [STAGING, TARGET], partition=PARTITION
    ),
    **at_both(
        "read_parts_cluster", staging_queries.render_read_parts, [STAGING, TARGET], partitions=["all", PARTITION]
    ),
    **at_both(
        "read_logged_parts_cluster",
        staging_queries.render_read_logged_parts,
        ["uuid-1", "uuid-2"],
        partitions=["all", PARTITION],
        query_prefix="ch-s3-0123456789abcdef0123-0-7-commit-",
        named="",
        **LOGGED,
    ),
    **at_both(
        "read_logged_parts_named_cluster",
        staging_queries.render_read_logged_parts,
        ["uuid-1", "uuid-2"],
        partitions=["all", PARTITION],
        query_prefix="ch-s3-0123456789abcdef0123-0-7-commit-",
        named="ch_s3_stage_0123456789ab_0123456789abcdef0123_0_7",
        **LOGGED,
    ),
    "drop_parts": staging_queries.render_drop_parts(STAGING, parts=["all_1_1_0", HOSTILE]),
    **at_both("read_idle_seconds_cluster", staging_queries.render_read_idle_seconds, STAGING),
    "alter_staging": staging_queries.render_alter_staging(
        STAGING,
        added=[NewColumn(name=HOSTILE, type="UInt8 DEFAULT 7"), NewColumn(name="x", type="Nullable(String)")],
        dropped=["y"],
        modified=[NewColumn(name="id", type="Int64")],
    ),
    "alter_staging_drop": staging_queries.render_alter_staging(STAGING, added=[], dropped=["y"], modified=[]),
    "move_partitions": staging_queries.render_move_partitions(STAGING, TARGET, partitions=["a", PARTITION]),
    "replace_partitions": staging_queries.render_replace_partitions(
        STAGING, TARGET, partitions=["a", PARTITION], allow_empty=False
    ),
    "replace_partitions_by_nothing": staging_queries.render_replace_partitions(
        STAGING, TARGET, partitions=[PARTITION], allow_empty=True
    ),
    "attach_partitions": staging_queries.render_attach_partitions(MERGED, STAGING, partitions=["a", PARTITION]),
    **at_both("hold_merges_on_cluster", staging_queries.render_hold_merges, MERGED),
    "copy_partitions": staging_queries.render_copy_partitions(
        MERGED, STAGING, partitions=["a", PARTITION], allow_empty=True
    ),
    "delete_rows": staging_queries.render_delete_rows(MERGED, condition=expression(CONDITION)),
    "await_deletion": staging_queries.render_await_deletion(MERGED),
    "check_condition_here": staging_queries.render_check_condition(
        TARGET, columns=["id", "tail`num"], condition=CONDITION
    ),
    **at_both(
        "count_same_rows_cluster",
        staging_queries.render_count_same_rows,
        STAGING,
        TARGET,
        node="one:9000",
        partition=PARTITION,
        last_block=7,
        compared=server_sql(f"id, {identifier('tail`num')}"),
    ),
    **at_both(
        "sum_rows_cluster",
        staging_queries.render_sum_rows,
        TARGET,
        node="one:9000",
        partition=PARTITION,
        compared=server_sql(f"id, {identifier('tail`num')}"),
    ),
    **at_both("count_visible_cluster", staging_queries.render_count_visible, TARGET, counts_deleted=True),
    **at_both(
        "count_existing_cluster",
        staging_queries.render_count_visible,
        TARGET,
        partitions=["a", PARTITION],
        counts_deleted=False,
    ),
    **at_both("unapplied_changes_cluster", staging_queries.render_unapplied_changes, TARGET),
    **at_both("renamed_columns_cluster", staging_queries.render_renamed_columns, TARGET, since=1_700_000_000),
    **at_both("count_seen_cluster", staging_queries.render_count_seen, TARGET, partitions=["a", PARTITION]),
    **at_both(
        "touched_partitions_cluster",
        staging_queries.render_touched_partitions,
        TARGET,
        condition=expression(CONDITION),
    ),
    **at_both(
        "count_outside_cluster", staging_queries.render_count_outside, STAGING, condition=expression(CONDITION)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_statement_is_as_the_golden_file(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(name, CASES[name].text)


@pytest.mark.parametrize("name", CASES)
def test_the_ledger_holds_no_secrets_and_takes_no_parameters(name: str) -> None:
    assert CASES[name].parameters == {}


@pytest.mark.parametrize("kind", ["locked", "planned", "committing", "committed", "abandoned"])
def test_an_event_is_part_of_the_statements_name(kind: str) -> None:
    assert ledger_queries.render_write_event(LEDGER, EVENT | {"event": kind}, quorum=0).name == f"write_event_{kind}"


def test_a_statement_is_called_as_its_template() -> None:
    assert ledger_queries.render_write_files(FILES, MANIFEST, quorum=0).name == "write_files"
    assert {s.name for n, s in CASES.items() if not n.startswith("write_")} == {
        "adopt_commits",
        "count_same_rows",
        "read_last_commit",
        "read_earlier_uuids",
        "read_ledger_comments",
        "create_ledger",
        "create_ledger_files",
        "read_events",
        "read_attempt_files",
        "count_by_folder",
        "read_last_files",
        "read_loaded_files",
        "read_commits",
        "read_commits_into",
        "read_replacements",
        "read_planned_by",
        "read_past_reports",
        "read_earlier_loads",
        "read_latest_attempts",
        "read_history",
        "read_targets",
        "read_locks",
        "read_lock_events",
        "read_recorded_files",
        "find_ledgers",
        "read_ledger_columns",
        "read_last_locks",
        "read_ended_attempts",
        "prune_ledger",
        "prune_locks",
        "forget_details",
        "prune_ledger_files",
        "read_uuids",
        "create_lock",
        "drop_lock",
        "read_tables",
        "read_replicas",
        "read_replication_queue",
        "read_fetches",
        "read_zero_copy",
        "create_staging",
        "read_view",
        "create_feed",
        "create_held",
        "drop_held",
        "rename_staging",
        "drop_staging",
        "read_partitions",
        "count_target",
        "read_blocks",
        "read_digests",
        "read_broken_parts",
        "read_parts",
        "read_logged_parts",
        "drop_parts",
        "alter_staging",
        "read_idle_seconds",
        "move_partitions",
        "replace_partitions",
        "attach_partitions",
        "copy_partitions",
        "hold_merges",
        "delete_rows",
        "await_deletion",
        "check_condition",
        "sum_rows",
        "count_visible",
        "unapplied_changes",
        "renamed_columns",
        "touched_partitions",
        "count_outside",
        "count_seen",
    }


@pytest.mark.parametrize(
    "render",
    [
        pytest.param(
            lambda text: staging_queries.render_check_condition(TARGET, columns=["id"], condition=text), id="check"
        ),
        pytest.param(expression, id="others"),
    ],
)
@pytest.mark.parametrize("condition", ["1) OR (1", "1 UNION ALL SELECT 1", "1; DROP TABLE x", "1 -- ", "1, 2", "'a"])
def test_a_hostile_condition_reaches_no_statement(render: Callable[[str], Statement], condition: str) -> None:
    with pytest.raises(ConfigError):
        render(condition)
