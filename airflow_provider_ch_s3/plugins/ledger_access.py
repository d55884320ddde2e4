"""How the page reads a ledger: through a connection that the user names, read-only, and not for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.exactly_once.ledger import check_schema, find_ledgers, ledger_name
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.hooks.connection import CONN_TYPES
from airflow_provider_ch_s3.inspect.cluster import read_server
from airflow_provider_ch_s3.records.view import LedgerView

# Somebody waits in front of the page. The server gives up before the page does, and says why.
TIMEOUTS = {"connect_timeout": 5, "send_receive_timeout": 20}
# With readonly = 1 the server would refuse the settings of the statements.
SETTINGS = {"readonly": 2, "max_execution_time": 15}


@dataclass(frozen=True, kw_only=True)
class FoundLedger:
    """A ledger that can be read.

    :param view: reads it.
    :param ledgers: names of all ledgers on the connected server.
    """

    view: LedgerView
    ledgers: list[str]


@contextmanager
def reading_ledger(conn_id: str, name: str = "", *, database: str = "") -> Iterator[FoundLedger]:
    """Open a ledger for the length of a block.

    :param conn_id: an Airflow connection of one of our own types.
    :param name: ``database.table``; '' for that of a database, or else the first one there is.
    :param database: whose tables are loaded; '' for the connection's own.
    :raises ConfigError: if there is no such connection, or no such ledger, or the connection is wrong.
    :raises ChS3Error: if ClickHouse does not answer, or refuses.
    """
    _check_connection(conn_id)
    hook = ClickHouseS3Hook(clickhouse_conn_id=conn_id, session_settings=SETTINGS, client_kwargs=TIMEOUTS)
    with closing(hook):
        declared = hook.declaration
        comments = find_ledgers(hook)
        known = {str(ledger): ledger for ledger in comments}
        own = str(ledger_name(declared.ledger_table, database or read_server(hook).database))
        chosen = name or (own if own in known else min(known, default=own))
        if chosen not in known:
            raise ConfigError(_describe_missing(chosen, conn_id, sorted(known)))
        ledger = known[chosen]
        check_schema(ledger, ledger.table, comments[ledger])
        yield FoundLedger(
            view=LedgerView(client=hook, cluster=declared.cluster, ledger=ledger), ledgers=sorted(known)
        )


def _check_connection(conn_id: str) -> None:
    """Check that it is a connection to ClickHouse; of others, not even that they exist is told.

    :raises ConfigError: if it is not.
    """
    try:
        conn_type = BaseHook.get_connection(conn_id).conn_type
    except AirflowNotFoundException:
        conn_type = ""
    if conn_type not in CONN_TYPES:
        raise ConfigError(
            f"Airflow has no connection {conn_id!r} to ClickHouse; name one of the type"
            f" {' or '.join(map(repr, CONN_TYPES))}"
        )


def _describe_missing(name: str, conn_id: str, known: list[str]) -> str:
    there = f"it has {', '.join(known)}" if known else "it has none yet: the first load into a database creates one"
    return f"there is no ledger {name} on the server of the connection {conn_id!r}; {there}"
