"""Table names, and what a Distributed table says of itself."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.table.target import (
    Distribution,
    TableColumn,
    TableName,
    TargetSpec,
    defines_disk,
    engine_of,
    parse_distribution,
    parse_table,
    plain_engine,
    short_hash,
)


@pytest.mark.parametrize(
    ("text", "database", "table"),
    [
        pytest.param("t", "here", "t", id="table"),
        pytest.param("d.t", "d", "t", id="database-and-table"),
        pytest.param(" d.t\n", "d", "t", id="white-space-around"),
        pytest.param("`a.b`.t", "a.b", "t", id="quoted-database"),
        pytest.param("d.`a.b c`", "d", "a.b c", id="quoted-table"),
        pytest.param("`a\\`b\\\\c`", "here", "a`b\\c", id="escaped-quote"),
        pytest.param("tëst-1", "here", "tëst-1", id="any-other-character"),
    ],
)
def test_parse_table(text: str, database: str, table: str) -> None:
    assert parse_table(text, "here") == TableName(database=database, table=table)


@pytest.mark.parametrize("text", ["", "a.b.c", ".t", "d.", "a b", "`a", "a`b", "``", "d.``", "`a`b`"])
def test_a_wrong_table_name(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_table(text, "here")
    assert caught.value.sentence == (
        f"table {text!r} is not a table name; write it as 'table' or 'database.table', with any name that contains a"
        " dot or a space in back-quotes, as in '`my.database`.table'"
    )


@pytest.mark.parametrize(
    ("engine_full", "cluster", "local", "sharding_key"),
    [
        pytest.param("Distributed('c', 'd', 't')", "c", "d.t", "", id="no-sharding-key"),
        pytest.param("Distributed('c', 'd', 't', rand())", "c", "d.t", "rand()", id="random"),
        pytest.param("Distributed('c', 'd', 't', cityHash64(a, b))", "c", "d.t", "cityHash64(a, b)", id="key"),
        pytest.param("Distributed('c', 'd', 't', user, 'tiered')", "c", "d.t", "user", id="policy"),
        pytest.param(
            "Distributed('c', 'd', 't', user) SETTINGS fsync_after_insert = 1, bytes_to_throw_insert = 5",
            "c",
            "d.t",
            "user",
            id="settings",
        ),
        pytest.param("Distributed('{cluster}', 'd', 't')", "{cluster}", "d.t", "", id="macro-is-kept"),
        pytest.param("Distributed(c, d, `t 1`)", "c", "d.t 1", "", id="other-quotes"),
        pytest.param("Distributed('it\\'s', 'd', 't')", "it's", "d.t", "", id="escaped-quote"),
    ],
)
def test_parse_distribution(engine_full: str, cluster: str, local: str, sharding_key: str) -> None:
    parsed = parse_distribution(engine_full)
    assert (parsed.cluster, str(parsed.local), parsed.sharding_key) == (cluster, local, sharding_key)


@pytest.mark.parametrize("engine_full", ["MergeTree ORDER BY a", "Distributed('c', 'd')", "Distributed()", ""])
def test_another_engine_is_refused(engine_full: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_distribution(engine_full)
    assert caught.value.sentence == f"cannot read the engine of a Distributed table in {engine_full!r}"


@pytest.mark.parametrize(
    ("sharding_key", "is_random"),
    [
        ("", True),
        ("rand()", True),
        ("rand32()", True),
        ("rand64()", True),
        ("user", False),
        ("rand() % 2 + user", False),
        ("cityHash64(rand())", False),
        ("randCanonical()", False),
    ],
)
def test_only_a_random_key_lets_rows_live_anywhere(sharding_key: str, is_random: bool) -> None:
    local = TableName(database="d", table="t")
    assert Distribution(cluster="c", local=local, sharding_key=sharding_key).is_random is is_random


@pytest.mark.parametrize(
    ("default_kind", "is_insertable", "is_required"),
    [
        ("", True, True),
        ("DEFAULT", True, False),
        ("MATERIALIZED", False, False),
        ("ALIAS", False, False),
        ("EPHEMERAL", False, False),
    ],
)
def test_columns_with_defaults(default_kind: str, is_insertable: bool, is_required: bool) -> None:
    column = TableColumn(name="a", type="UInt8", default_kind=default_kind)
    assert (column.is_insertable, column.is_required) == (is_insertable, is_required)


LOCAL = TableName(database="d", table="t")
STAGING = TableName(database="d", table="stage")
TARGET = TargetSpec(name=LOCAL, local=LOCAL, engine="MergeTree", columns=(), partition_key="")


@pytest.mark.parametrize(
    ("engine", "has_ttl", "expected"),
    [
        pytest.param("MergeTree", False, True, id="plain"),
        pytest.param("ReplicatedMergeTree", False, True, id="replicated"),
        pytest.param("SharedMergeTree", False, True, id="cloud"),
        pytest.param("MergeTree", True, False, id="rows-vanish-by-their-age"),
        pytest.param("ReplicatedMergeTree", True, False, id="replicated-with-ttl"),
        pytest.param("ReplacingMergeTree", False, False, id="replacing"),
        pytest.param("ReplicatedReplacingMergeTree", False, False, id="replicated-replacing"),
        pytest.param("SharedAggregatingMergeTree", False, False, id="cloud-aggregating"),
        pytest.param("CollapsingMergeTree", False, False, id="collapsing"),
        pytest.param("Log", False, False, id="no-merge-tree"),
    ],
)
def test_only_merges_that_leave_rows_as_they_are_keep_all_rows(engine: str, has_ttl: bool, expected: bool) -> None:
    assert dataclasses.replace(TARGET, engine=engine, has_ttl=has_ttl).keeps_all_rows is expected


@pytest.mark.parametrize(
    ("changes", "spans_cluster", "sharding_key"),
    [
        pytest.param({}, False, "", id="one-node"),
        pytest.param({"spans_cluster": True}, True, "", id="local-table-on-each-node"),
        pytest.param({"distribution": Distribution(cluster="c", local=LOCAL)}, True, "", id="distributed"),
        pytest.param(
            {"distribution": Distribution(cluster="c", local=LOCAL, sharding_key="rand()")},
            True,
            "",
            id="distributed-anywhere",
        ),
        pytest.param(
            {"distribution": Distribution(cluster="c", local=LOCAL, sharding_key="cityHash64(a)")},
            True,
            "cityHash64(a)",
            id="distributed-by-key",
        ),
    ],
)
def test_staged_rows_go_to_the_shards_of_the_target(
    changes: dict[str, Any], spans_cluster: bool, sharding_key: str
) -> None:
    target = dataclasses.replace(TARGET, **{"name": TableName(database="d", table="all"), **changes})
    staged = target.staged_in(STAGING)
    assert (staged.name, staged.local, staged.distribution) == (STAGING, STAGING, None)
    assert (staged.spans_cluster, staged.sharding_key) == (spans_cluster, sharding_key)
    assert staged.engine == "MergeTree"


@pytest.mark.parametrize(
    ("database", "table", "expected"),
    [
        # first letters of what sha256sum says of d.t and it's.a`b
        pytest.param("d", "t", "9ace5f20e8d6", id="plain"),
        pytest.param("it's", "a`b", "52115f13b013", id="quotes"),
    ],
)
def test_short_hash(database: str, table: str, expected: str) -> None:
    assert short_hash(TableName(database=database, table=table)) == expected


@pytest.mark.parametrize(
    ("engine_full", "expected"),
    [
        pytest.param("MergeTree ORDER BY id SETTINGS index_granularity = 8192", "MergeTree", id="plain"),
        pytest.param("ReplacingMergeTree(v) ORDER BY (a, b)", "ReplacingMergeTree(v)", id="version"),
        pytest.param(
            "ReplicatedReplacingMergeTree('/t/{shard}', '{replica}', v) PARTITION BY d ORDER BY a",
            "ReplicatedReplacingMergeTree(v)",
            id="replicated",
        ),
        pytest.param("ReplicatedMergeTree('/t/{uuid}', '{replica}') ORDER BY a", "ReplicatedMergeTree", id="paths"),
        pytest.param("SummingMergeTree((a, b)) ORDER BY id", "SummingMergeTree((a, b))", id="columns"),
        pytest.param("Memory", "Memory", id="no-merge-tree"),
    ],
)
def test_engine_of(engine_full: str, expected: str) -> None:
    assert engine_of(engine_full) == expected


@pytest.mark.parametrize(
    ("engine_full", "with_keys", "expected"),
    [
        ("MergeTree ORDER BY id", False, "MergeTree"),
        ("ReplicatedReplacingMergeTree('/p', '{replica}', v) ORDER BY id", True, "ReplicatedMergeTree ORDER BY id"),
        ("MergeTree PARTITION BY TTL % 2 ORDER BY 'x TTL ' SETTINGS a = 1", True, None),
        ("MergeTree ORDER BY ttl TTL ttl + toIntervalDay(1)", True, "MergeTree ORDER BY ttl"),
        (
            "MergeTree PARTITION BY TTL ORDER BY (settings, TTL) TTL TTL + toIntervalDay(1) WHERE settings = 1,"
            " TTL + toIntervalDay(9) GROUP BY settings SET id = max(id) SETTINGS index_granularity = 10, x = 'p'",
            True,
            "MergeTree PARTITION BY TTL ORDER BY (settings, TTL) SETTINGS index_granularity = 10, x = 'p'",
        ),
        (
            "MergeTree ORDER BY k SETTINGS index_granularity = 10, disk = disk(name = 'd', endpoint = '[HIDDEN]')",
            True,
            "MergeTree ORDER BY k SETTINGS index_granularity = 10",
        ),
        (
            "MergeTree ORDER BY settings SETTINGS disk = disk(disk = disk(endpoint = '[HIDDEN]'), x = 1), x = ', '",
            True,
            "MergeTree ORDER BY settings SETTINGS x = ', '",
        ),
        (
            "MergeTree ORDER BY k SETTINGS disk = disk(type = 's3', endpoint = '[HIDDEN]')",
            True,
            "MergeTree ORDER BY k",
        ),
    ],
)
def test_a_plain_engine_keeps_all_rows(engine_full: str, with_keys: bool, expected: str | None) -> None:
    assert plain_engine(engine_full, with_keys=with_keys) == (expected or engine_full)


@pytest.mark.parametrize(
    ("settings", "is_own"),
    [
        ("index_granularity = 8192", False),
        ("disk = 's3'", False),
        ("storage_policy = 'tiered', index_granularity = 8192", False),
        ("index_granularity = 8192, disk = disk(type = 'local', path = '/var/x/')", True),
        ("disk = disk(name = 'd', type = 's3', endpoint = '[HIDDEN]', access_key_id = '[HIDDEN]')", True),
    ],
)
def test_who_defines_the_disk(settings: str, is_own: bool) -> None:
    assert defines_disk(f"MergeTree PARTITION BY day ORDER BY n SETTINGS {settings}") is is_own
