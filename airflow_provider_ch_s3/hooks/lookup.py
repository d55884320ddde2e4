"""Airflow connections for the commands."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.errors import ConfigError

if TYPE_CHECKING:
    from airflow.models import Connection

    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook


@contextmanager
def clickhouse_hook(conn_id: str) -> Iterator[ClickHouseS3Hook]:
    """Yield the hook of a connection, and close it at the end of the block."""
    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

    with _all_connections(), closing(ClickHouseS3Hook(clickhouse_conn_id=conn_id)) as hook:
        yield hook


@contextmanager
def _all_connections() -> Iterator[None]:
    """Search for connections in the same places as Airflow's own commands.

    Outside of a task, Airflow's SDK searches the environment and the secrets backends, but not the database, unless
    the process declares itself one of Airflow's own.
    """
    before = os.environ.get("_AIRFLOW_PROCESS_CONTEXT")
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    try:
        yield
    finally:
        if before is None:
            del os.environ["_AIRFLOW_PROCESS_CONTEXT"]
        else:
            os.environ["_AIRFLOW_PROCESS_CONTEXT"] = before


@contextmanager
def stored_connection(conn_id: str) -> Iterator[Connection]:
    """Yield a connection in Airflow's database; changes are saved at the end of the block.

    :raises ConfigError: if the database does not have it: the environment or a secrets backend may.
    """
    from airflow.models import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        connection = session.scalar(select(Connection).where(Connection.conn_id == conn_id))
        if connection is None:
            raise ConfigError(
                "connection-missing",
                f"Airflow's database has no connection {conn_id!r}, so --save cannot change it; leave --save out, and"
                " copy what is printed into its extra where the connection is defined",
            )
        yield connection


def check_stored_connection(conn_id: str) -> None:
    """Check that a connection can be saved.

    :raises ConfigError: as :func:`stored_connection`.
    """
    with stored_connection(conn_id):
        pass


def store_extra(conn_id: str, values: Mapping[str, Any]) -> None:
    """Add keys to the extra of a connection in Airflow's database.

    :raises ConfigError: as :func:`stored_connection`.
    """
    with stored_connection(conn_id) as connection:
        connection.set_extra(json.dumps({**connection.extra_dejson, **values}))
