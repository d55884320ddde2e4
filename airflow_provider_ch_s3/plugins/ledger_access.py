"""How the page reads a ledger: through a connection named by the user, read-only, and not for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails
from airflow.models import Connection
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, conf
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.exactly_once.ledger import check_schema, find_ledgers, ledger_name
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.hooks.connection import CONN_TYPES
from airflow_provider_ch_s3.introspection.cluster import read_server
from airflow_provider_ch_s3.reporting.view import LedgerView
from airflow_provider_ch_s3.table.target import TableName

log = get_log(__name__)

# Somebody waits in front of the page. The server gives up before the page does, and says why.
TIMEOUTS = {"connect_timeout": 5, "send_receive_timeout": 20}
# With readonly = 1 the server would refuse the settings of the statements.
SETTINGS = {"readonly": 2, "max_execution_time": 15}


@contextmanager
def reading_ledger(conn_id: str, name: str = "", *, database: str = "") -> Iterator[tuple[LedgerView, list[str]]]:
    """Open a ledger for the length of a block, and return the names of all ledgers on the server.

    :param conn_id: an Airflow connection of a type of ours, which the user may see.
    :param name: ``database.table``; '' for the ledger of a database, or else the first ledger on the server.
    :param database: the database of the loaded tables; '' for the connection's own.
    :raises ConfigError: if the connection or the ledger does not exist, or the connection is wrong.
    :raises ChS3Error: if ClickHouse does not answer, or refuses.
    """
    _check_connection(conn_id)
    hook = ClickHouseS3Hook(clickhouse_conn_id=conn_id, session_settings=SETTINGS, client_kwargs=TIMEOUTS)
    with closing(hook):
        cluster, own, comments = _look(hook, conn_id, database)
        known = {str(ledger): ledger for ledger in comments}
        chosen = name or (own if own in known else min(known, default=own))
        if chosen not in known:
            there = ", ".join(sorted(known)) or "none yet: the first load into a database creates one"
            raise ConfigError(
                "ledger-missing",
                f"there is no ledger {chosen} on the server of the connection {conn_id!r}; it has {there}",
            )
        ledger = known[chosen]
        check_schema(ledger, ledger.table, comments[ledger])
        yield LedgerView(client=hook, cluster=cluster, ledger=ledger), sorted(known)


def may_see(conn_id: str, user: BaseUser) -> bool:
    """Whether a user may look at the ledger of a connection: the user may read the connection, or a load has used it.

    Airflow's database knows both, so a made-up id reaches no secrets backend. With several teams, the connection of a
    team is for users who may read the connection: the loads of a team do not concern the other teams.
    """
    team = Connection.get_team_name(conn_id) if conf.getboolean("core", "multi_team", fallback=False) else None
    details = ConnectionDetails(conn_id=conn_id, team_name=team)
    may_read = get_auth_manager().is_authorized_connection(method="GET", details=details, user=user)
    return may_read or (team is None and _is_used(conn_id))


def _is_used(conn_id: str) -> bool:
    """Whether any load has used a connection, according to the rendered fields that Airflow keeps for tasks."""
    fields = RenderedTaskInstanceFields.rendered_fields
    used = select(RenderedTaskInstanceFields.dag_id).where(
        fields["clickhouse_conn_id"].as_string() == conn_id,
        *(fields[name].as_string().is_not(None) for name in ("source", "table")),
    )
    with create_session() as session:
        return session.scalar(used.limit(1)) is not None


def describe_absent(conn_id: str) -> str:
    """Say the same for a connection that does not exist, is not to ClickHouse, or is not for this user."""
    return (
        f"no load has used a connection {conn_id!r} to ClickHouse, and you may not read one of this id; name one of"
        f" the type {' or '.join(map(repr, CONN_TYPES))}"
    )


def _look(hook: ClickHouseS3Hook, conn_id: str, database: str) -> tuple[str | None, str, dict[TableName, str]]:
    """Return the cluster, the name of the database's ledger, and all ledgers, each with a comment.

    :raises ConfigError: if the connection is wrong. The cause names values of the connection, which the user may not
        see.
    """
    try:
        declared = hook.declaration
        own = str(ledger_name(declared.ledger_table, database or read_server(hook).database))
        return declared.cluster, own, find_ledgers(hook, declared.cluster)
    except ConfigError as error:
        log.warning("the page cannot read a ledger: %s", error)
        raise ConfigError(
            "connection-invalid",
            f"the connection {conn_id!r} is wrong; the log of Airflow's API server says why, and so does the button"
            " Test of the connection",
        ) from None


def _check_connection(conn_id: str) -> None:
    """Check that the connection is to ClickHouse; the error does not even tell whether any other connection exists.

    :raises ConfigError: if the connection is not to ClickHouse.
    """
    try:
        conn_type = BaseHook.get_connection(conn_id).conn_type
    except AirflowNotFoundException:
        conn_type = ""
    if conn_type not in CONN_TYPES:
        raise ConfigError("connection-missing", describe_absent(conn_id))
