"""Airflow connections, as the commands take them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook


@contextmanager
def clickhouse_hook(conn_id: str) -> Iterator[ClickHouseS3Hook]:
    """The hook of a connection, closed at the end of the block.

    :raises ConfigError: if Airflow has no such connection.
    """
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

    hook = ClickHouseS3Hook(clickhouse_conn_id=conn_id)
    try:
        hook.declaration  # noqa: B018  asked for here, where a missing connection can be told from other errors
    except AirflowNotFoundException as error:
        raise ConfigError(
            f"Airflow has no connection {conn_id!r}; create it, e.g. in the environment as"
            f" AIRFLOW_CONN_{conn_id.upper()}, or name another one with --conn-id"
        ) from error
    try:
        yield hook
    finally:
        hook.close()
