"""What a merge refuses before anything is staged; what the engine refuses: sandbox."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, LoadError, ServerError, TargetError
from airflow_provider_ch_s3.exactly_once.modes.merge import check_merge
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TargetSpec
from tests.failures import coded

TABLE = TableName(database="d", table="t")
COLUMNS = tuple(TableColumn(name=name, type="UInt8") for name in ("id", "at"))


def check(
    error: ChS3Error | None = None,
    *,
    engine: str = "MergeTree",
    sorted_by: str = "id",
    arguments: str = "",
    columns: tuple[TableColumn, ...] = COLUMNS,
    unapplied: Sequence[dict[str, Any]] = (),
    **rule: Any,
) -> None:
    """Check a merge by ``id`` and ``at``.

    :param error: the server's answer when the key is tried.
    :param arguments: of the engine.
    :param unapplied: changes that the server has not written into the parts.
    """

    def query(statement: Statement) -> list[dict[str, Any]]:
        if error and statement.name == "try_merge_key":
            raise error
        return list(unapplied) if statement.name == "unapplied_changes" else []

    spec = TargetSpec(
        name=TABLE,
        local=TABLE,
        engine=engine,
        columns=columns,
        partition_key="",
        sorting_key=sorted_by,
        engine_arguments=tuple(filter(None, [arguments])),
    )
    target = SimpleNamespace(
        spec=spec, client=SimpleNamespace(query=query), cluster=SimpleNamespace(name=None), staging=None
    )
    check_merge(target, MergeRule(**{"key": ("id",), "version": "at", **rule}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "code", "raised"),
    [
        ("Illegal type JSON of argument of max (ILLEGAL_TYPE_OF_ARGUMENT)", 43, ConfigError),
        ("Dynamic is not allowed in GROUP BY (ILLEGAL_COLUMN)", 44, ConfigError),
        ("no supertype for types (NO_COMMON_TYPE)", 386, ConfigError),
        ("memory limit exceeded (MEMORY_LIMIT_EXCEEDED)", 241, ServerError),
        ("Timeout exceeded (TIMEOUT_EXCEEDED)", 159, ServerError),
        ("Connection reset (NETWORK_ERROR)", 210, ServerError),
    ],
)
def test_only_a_refused_type_is_final(message: str, code: int, raised: type[ChS3Error]) -> None:
    check()
    with pytest.raises(raised, match=message.partition(" (")[0]) as failed:
        check(ServerError("server-error", message, server_code=code))
    assert failed.value.is_final is (raised is ConfigError)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param({"sorted_by": "intHash32(id)"}, ["sorted by intHash32(id)", "id of key"], id="sorting"),
        pytest.param({"key": ("id", "at"), "version": ""}, ["sorted by id", "at of key"], id="part-of-the-key"),
        pytest.param(
            {"collapses": True},
            ["written last", "greatest at"],
            id="no-version",
        ),
        pytest.param(
            {"collapses": True, "arguments": "ver"},
            ["greatest ver", "greatest at"],
            id="other-version",
        ),
        pytest.param({"sorted_by": "day, id"}, [], id="sorted-by-more"),
        pytest.param({"arguments": "ver"}, [], id="no-key-is-collapsed"),
        pytest.param({"collapses": True, "arguments": "at"}, [], id="the-same-version"),
        pytest.param({"collapses": True, "version": ""}, [], id="the-files-are-newer"),
    ],
)
def test_a_table_that_would_keep_other_rows_than_the_merge_is_refused(
    arguments: dict[str, Any], says: list[str]
) -> None:
    check(**{**arguments, "engine": "MergeTree"})
    if not says:
        check(**arguments, engine="ReplicatedReplacingMergeTree")
        return
    with pytest.raises(TargetError, match=coded("engine-not-mergeable", *says)):
        check(**arguments, engine="ReplicatedReplacingMergeTree")


def test_a_table_with_rows_that_would_lose_a_change_is_refused() -> None:
    change = {"node": "a:1", "name": "mutation_3.txt", "change": "UPDATE v = 1 WHERE 1"}
    with pytest.raises(LoadError, match=coded("mutation-unfinished", "a:1", "d.t", "mutation_3.txt")):
        check(unapplied=[change])


def test_a_column_with_a_name_that_the_merge_needs_is_refused() -> None:
    reserved = TableColumn(name="ch_s3_version", type="UInt8")
    with pytest.raises(TargetError, match=coded("column-name-reserved", "'ch_s3_version'", "d.t")):
        check(columns=(*COLUMNS, reserved))
    check(columns=(*COLUMNS, dataclasses.replace(reserved, default_kind="ALIAS")))
