"""What a merge refuses before anything is staged; what the engine refuses: sandbox."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, ServerError, TargetError
from airflow_provider_ch_s3.load.merge import check_merge
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TargetSpec

TABLE = TableName(database="d", table="t")
COLUMNS = tuple(TableColumn(name=name, type="UInt8") for name in ("id", "at"))


def check(
    error: ChS3Error | None = None,
    *,
    engine: str = "MergeTree",
    sorted_by: str = "id",
    arguments: str = "",
    **rule: Any,
) -> None:
    """Check a merge by ``id`` and ``at``.

    :param error: the server's answer when the key is tried.
    :param arguments: of the engine.
    """

    def query(statement: Statement) -> list[dict[str, Any]]:
        if error and statement.name == "try_merge_key":
            raise error
        return []

    spec = TargetSpec(
        name=TABLE,
        local=TABLE,
        engine=engine,
        columns=COLUMNS,
        partition_key="",
        sorting_key=sorted_by,
        engine_arguments=tuple(filter(None, [arguments])),
    )
    target = SimpleNamespace(
        spec=spec, client=SimpleNamespace(query=query), cluster=SimpleNamespace(name=None), staging=None
    )
    request = SimpleNamespace(merge=MergeRule(**{"key": ("id",), "version": "at", **rule}))
    check_merge(target, request)  # type: ignore[arg-type]


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
        check(ServerError(message, code=code))
    assert failed.value.is_final is (raised is ConfigError)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(
            {"sorted_by": "intHash32(id)"}, r"sorted by intHash32\(id\), without id of merge_key", id="sorting"
        ),
        pytest.param(
            {"key": ("id", "at"), "version": ""}, "sorted by id, without at of merge_key", id="part-of-the-key"
        ),
        pytest.param(
            {"collapses": True},
            "keep the row that was written last of a key, not the greatest at",
            id="no-version",
        ),
        pytest.param(
            {"collapses": True, "arguments": "ver"},
            "keep the greatest ver of a key, not the greatest at",
            id="other-version",
        ),
        pytest.param({"sorted_by": "day, id"}, "", id="sorted-by-more"),
        pytest.param({"arguments": "ver"}, "", id="no-key-is-collapsed"),
        pytest.param({"collapses": True, "arguments": "at"}, "", id="the-same-version"),
        pytest.param({"collapses": True, "version": ""}, "", id="the-files-are-newer"),
    ],
)
def test_a_table_that_would_keep_other_rows_than_the_merge_is_refused(arguments: dict[str, Any], says: str) -> None:
    check(**{**arguments, "engine": "MergeTree"})
    if not says:
        check(**arguments, engine="ReplicatedReplacingMergeTree")
        return
    with pytest.raises(TargetError, match=says):
        check(**arguments, engine="ReplicatedReplacingMergeTree")
