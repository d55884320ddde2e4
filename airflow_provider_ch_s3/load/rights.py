"""What the user of the connection may do, found out before the first change."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ch_s3.errors import TargetError
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.load.site import Site
from airflow_provider_ch_s3.load.staging import StagingTable
from airflow_provider_ch_s3.load.story import AttemptId
from airflow_provider_ch_s3.sql import load_queries
from airflow_provider_ch_s3.sql.filters import short_identifier
from airflow_provider_ch_s3.target import TableName

# Older servers do not know CHECK GRANT; there a missing right is told by the statement that needs it.
FIRST_VERSION = (25, 8)
TARGET_RIGHTS = ("SELECT", "INSERT", "ALTER DELETE")
STAGING_RIGHTS = (*TARGET_RIGHTS, "ALTER SETTINGS", "CREATE TABLE", "DROP TABLE")
LEDGER_RIGHTS = ("SELECT", "INSERT", "CREATE TABLE")


def check_rights(client: ClickHouseClient, site: Site) -> None:
    """See that the user may write the ledger, stage and commit.

    :raises TargetError: if not; names what is missing.
    """
    if site.cluster.server_version < FIRST_VERSION:
        return
    target, ledger = site.target.local, site.ledger.name
    staged = site.staging.name(StagingTable(attempt=AttemptId(load_id="ch-s3-x", generation=0, number=0), epoch=0))
    # Rights on the whole database are the rule, and take one question.
    if ledger.database == target.database and not _find_missing(client, STAGING_RIGHTS, target.database, None):
        return
    for table, rights in ((target, TARGET_RIGHTS), (staged, STAGING_RIGHTS), (ledger, LEDGER_RIGHTS)):
        if missing := _find_missing(client, rights, table.database, table):
            user = client.query(load_queries.render_read_user())[0]["user"]
            grant = f"GRANT {', '.join(missing)} ON {short_identifier(table.database)}.* TO {short_identifier(user)}"
            raise TargetError(
                f"user {user!r} may not {', '.join(missing)} on {table}, and nothing was changed; have an"
                f" administrator run {grant} on every node (docs/permissions.md has all rights)"
            )


def _find_missing(
    client: ClickHouseClient, rights: Sequence[str], database: str, table: TableName | None
) -> list[str]:
    def has(some: Sequence[str]) -> bool:
        return bool(client.query(load_queries.render_check_grant(some, database, table))[0]["result"])

    return [] if has(rights) else [right for right in rights if not has([right])]
