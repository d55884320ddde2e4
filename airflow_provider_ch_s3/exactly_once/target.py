"""A target: a table as found on the servers, with the ledger, lock and staging tables for the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.text import count_of, format_count
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, EventKind, History
from airflow_provider_ch_s3.exactly_once.holdings import Holdings
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.exactly_once.lock import Lock
from airflow_provider_ch_s3.exactly_once.records import Locked
from airflow_provider_ch_s3.exactly_once.staging import Staging, StagingTable
from airflow_provider_ch_s3.introspection.cluster import check_reach
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.sql.table_queries import render_add_columns, render_read_table
from airflow_provider_ch_s3.table.provenance import Provenance, check_columns, missing_columns
from airflow_provider_ch_s3.table.target import TableName, TargetSpec, is_merge_tree


@dataclass(frozen=True, kw_only=True)
class Target:
    """A table as found on the servers; ``find_target`` wires the objects of a target.

    :param holdings: what the ledger knows about the content of the table.
    """

    client: ClickHouseClient
    cluster: ClusterSpec
    spec: TargetSpec
    ledger: Ledger
    staging: Staging
    lock: Lock
    holdings: Holdings

    def under(self, name: TableName, history: History) -> Target | None:
        """Return the target under an earlier name; None if nothing is left there, or another table has the name."""
        if any(
            attempt.state is EventKind.COMMITTING and not set(attempt.committing_uuids) & set(self.spec.uuids)
            for attempt in history.attempts.values()
        ):
            return None
        rows = self.client.query(render_read_table(name, self.cluster.name))
        if any(is_merge_tree(row["engine"]) for row in rows):
            return None
        ledger = self.ledger.of(name)
        # RENAME DATABASE takes them along, RENAME TABLE into another database does not.
        for home in dict.fromkeys((self.spec.local.database, name.database)):
            staging = replace(self.staging, known_as=name, home=home)
            lock = replace(self.lock, ledger=ledger, staging=staging)
            if lock.is_anything_left():
                holdings = replace(self.holdings, ledger=ledger)
                return replace(self, ledger=ledger, staging=staging, lock=lock, holdings=holdings)
        return None

    def is_last_of_task(self) -> bool:
        """Whether no other process of the same task has owned the target since this process did."""
        begun = self.ledger.read().begun_by(self.lock.identity.load_id)
        locked = [event for event in begun if event.kind is EventKind.LOCKED]
        return not locked or locked[-1].read(Locked).token == self.lock.token

    def find_staged(self, attempt: AttemptId, role: str = "") -> TableName:
        """Name of the attempt's table with a role, in any epoch; '' is the role of the rows for the target."""
        epochs = [t.epoch for t in self.staging.find() if t.attempt == attempt and t.role == role]
        return self.staging.name(StagingTable(attempt=attempt, epoch=max(epochs, default=attempt.number), role=role))

    def partition_rows(self, table: TableName) -> dict[str, int]:
        """Count the rows of each partition, over all shards."""
        rows: dict[str, int] = {}
        render, is_exact = staging_queries.render_read_partitions, self.spec.keeps_all_rows
        for row in self.staging.query_agreed(table, render, is_exact=is_exact):
            rows[row["partition_id"]] = rows.get(row["partition_id"], 0) + row["rows"]
        return dict(sorted(rows.items()))

    def check_all_seen(self, staged: TableName, *, seen: int, unchecked: str) -> None:
        """Check that no row policy has hidden staged rows from a query.

        :param seen: how many rows the query saw, before now.
        :param unchecked: what cannot be checked otherwise, for the message.
        :raises LoadError: if there are more rows.
        """
        # Count the parts' rows last: merges may remove rows in between, but never add any.
        if seen < (stored := sum(self.partition_rows(staged).values())):
            raise LoadError(
                "rows-hidden",
                f"the user of this connection sees only {format_count(seen)} of {count_of(stored, 'staged row')}, so"
                f" {unchecked}; {self.spec.name} was not changed: load as a user without a row policy on the database"
                f" {staged.database}",
            )

    def check_commit(self, view_tables: Sequence[TableName]) -> None:
        """Check that a commit can reach every node and every replica.

        :param view_tables: the destinations of the target's materialized views.
        :raises ConfigError: if the connection lacks the address of a node.
        :raises TargetError: if the cluster lacks a replica.
        """
        check_reach(self.client, self.cluster, any_will_do=partial(self._any_node_will_do, view_tables))
        if self.staging.replicas.exist:
            for table in (self.spec.local, *view_tables):
                self.staging.replicas.check(table)

    def _any_node_will_do(self, view_tables: Sequence[TableName]) -> bool:
        """Whether all nodes are replicas of each other, for every table to be changed by a commit."""
        return (
            self.spec.is_replicated
            and self.cluster.shard_count == 1
            and all(self.staging.replicas.are_one_group(table) for table in view_tables)
        )


def check_provenance(target: TargetSpec, provenance: Provenance) -> None:
    """Check that the table has the columns for the origin of a row.

    :raises TargetError: if a column is missing; names the ALTER to run.
    """
    check_columns(target, provenance, add_columns=_add_columns(target, provenance))


def _add_columns(target: TargetSpec, provenance: Provenance) -> str:
    """Write the statement to add the missing columns, and where to run the statement; '' if no column is missing."""
    missing = missing_columns(target, provenance)
    if not missing:
        return ""
    alter = " ".join(render_add_columns(target.local, None, columns=missing).text.split())
    return f"{alter} on every node" + (f", and the same for {target.name}" if target.distribution else "")
