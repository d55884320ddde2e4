"""What a merge refuses before anything is staged; what the engine refuses: sandbox."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.errors import ChS3Error, ConfigError, ServerError
from airflow_provider_ch_s3.load.merge import check_merge
from airflow_provider_ch_s3.table.merge_rule import MergeRule
from airflow_provider_ch_s3.table.target import TableColumn, TableName, TargetSpec

TABLE = TableName(database="d", table="t")
COLUMNS = tuple(TableColumn(name=name, type="UInt8") for name in ("id", "at"))


def check(error: ChS3Error | None = None, *, engine: str = "MergeTree", **rule: Any) -> None:
    """Check a merge by ``id`` and ``at``; the server answers the first statement with an error."""

    def query(statement: Statement) -> list[dict[str, Any]]:
        if error and statement.name == "try_merge_key":
            raise error
        return []

    spec = TargetSpec(name=TABLE, local=TABLE, engine=engine, columns=COLUMNS, partition_key="")
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
