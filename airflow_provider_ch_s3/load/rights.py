"""Check the rights of the connection's user before the first change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.staging import StagingTable
from airflow_provider_ch_s3.exactly_once.views import View
from airflow_provider_ch_s3.load.context import LoadContext
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.request import LoadMode
from airflow_provider_ch_s3.sql import load_queries
from airflow_provider_ch_s3.sql.filters import short_identifier
from airflow_provider_ch_s3.target import TableName

# Older servers have no CHECK GRANT; there, the statement that lacks a right reports it.
FIRST_VERSION = (25, 8)
READ_AND_WRITE = ("SELECT", "INSERT")
CREATE = ("CREATE TABLE", "DROP TABLE")
# A MOVE removes rows from the staging table; the replacing modes remove them from the target as well.
REMOVE = ("ALTER DELETE",)
# To hold back merges of the staging table.
HOLD = ("ALTER SETTINGS",)


def check_rights(context: LoadContext, mode: LoadMode, views: Iterable[View]) -> None:
    """Check that the user may write to the ledger, stage and commit.

    :raises TargetError: if not; names the missing rights.
    """
    if context.cluster.server_version < FIRST_VERSION:
        return
    staged = context.staging.name(StagingTable(attempt=AttemptId(load_id="ch-s3-x", generation=0, number=0), epoch=0))
    is_append = mode is LoadMode.APPEND
    holds_merges = is_append or mode is LoadMode.REPLACE_WHERE
    needs = {
        staged: (*READ_AND_WRITE, *CREATE, *REMOVE, *(HOLD if holds_merges else ())),
        context.target.local: (*READ_AND_WRITE, *(() if is_append else REMOVE)),
        context.ledger.name: READ_AND_WRITE,
        **{view.table: READ_AND_WRITE for view in views},
    }
    if _has(context.client, needs):
        return
    for table, rights in needs.items():
        if missing := [right for right in rights if not _has(context.client, {table: [right]})]:
            user = context.client.query(load_queries.render_read_user())[0]["user"]
            # The names of staging tables are different in each load.
            name = "*" if table == staged else short_identifier(table.table)
            where = f"{short_identifier(table.database)}.{name}"
            raise TargetError(
                f"user {user!r} may not {', '.join(missing)} on {where}, and nothing was changed; have an"
                f" administrator run GRANT {', '.join(missing)} ON {where} TO {short_identifier(user)} on every node"
                " (docs/permissions.md lists all rights)"
            )


def _has(client: ClickHouseClient, needs: Mapping[TableName, Sequence[str]]) -> bool:
    return bool(client.query(load_queries.render_check_grant(needs))[0]["result"])
