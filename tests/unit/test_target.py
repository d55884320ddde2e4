"""Table names, and what a Distributed table says of itself."""

from __future__ import annotations

import pytest

from airflow_provider_ch_s3.errors import ConfigError, TargetError
from airflow_provider_ch_s3.target import Distribution, TableColumn, TableName, parse_distribution, parse_table


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
    assert str(caught.value) == f"table {text!r} is not a table name; write it as 'table' or 'database.table'"


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
    assert str(caught.value) == f"cannot read the engine of a Distributed table in {engine_full!r}"


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
