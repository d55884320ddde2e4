"""The context of a load: its target, and what belongs to the target."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, DdlMode
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.exactly_once.history import AttemptId, History
from airflow_provider_ch_s3.exactly_once.holdings import Holdings
from airflow_provider_ch_s3.exactly_once.lease import TargetLock
from airflow_provider_ch_s3.exactly_once.ledger import Ledger, ledger_name
from airflow_provider_ch_s3.exactly_once.owner import TargetLocking
from airflow_provider_ch_s3.exactly_once.replicas import Replicas
from airflow_provider_ch_s3.exactly_once.staging import PARTITIONS_PER_STATEMENT, Staging, StagingTable
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.inspect.locate import check_coverage, locate_table
from airflow_provider_ch_s3.inspect.table import choose_ddl_mode, read_target
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.target import TableName, TargetSpec


@dataclass(frozen=True, kw_only=True)
class LoadContext:
    """The target as found on the servers, its ledger, its staging tables, and its lock."""

    client: ClickHouseClient
    cluster: ClusterSpec
    target: TargetSpec
    ledger: Ledger
    staging: Staging
    locking: TargetLocking

    @property
    def holdings(self) -> Holdings:
        """What the ledger knows about the content of the target."""
        return Holdings(ledger=self.ledger, table_uuids=self.target.uuids)

    def staged(self, attempt: AttemptId, role: str = "") -> TableName:
        """Name of the attempt's staging table, or of another one of its tables, whatever epoch it carries."""
        epochs = [t.epoch for t in self.staging.find() if t.attempt == attempt and t.role == role]
        return self.staging.name(StagingTable(attempt=attempt, epoch=max(epochs, default=attempt.number), role=role))

    def partition_rows(self, table: TableName) -> dict[str, int]:
        """Count the rows of each partition, over all shards."""
        rows: dict[str, int] = {}
        render, is_exact = staging_queries.render_read_partitions, self.target.keeps_all_rows
        for row in self.staging.query_agreed(table, render, is_exact=is_exact):
            rows[row["partition_id"]] = rows.get(row["partition_id"], 0) + row["rows"]
        return dict(sorted(rows.items()))

    def check_commit(self, view_tables: Sequence[TableName]) -> None:
        """Check that a commit can reach every node and every replica.

        :param view_tables: the tables that the target's materialized views write to.
        :raises ConfigError: if the connection lacks the address of a node.
        :raises TargetError: if the cluster lacks a replica.
        """
        nodes = {node.host for node in self.cluster.nodes}
        lacking = nodes - self.client.reachable
        if lacking and (lacking == nodes or not self._any_node_will_do(view_tables)):
            raise ConfigError(
                f"a commit has to reach every node of the cluster {self.cluster.name!r}, and the connection has no"
                f" address of {', '.join(sorted(lacking))}; list the host:port of every node's HTTP interface in"
                " http_endpoints"
            )
        if self.staging.replicas.exist:
            for table in (self.target.local, *view_tables):
                self.staging.replicas.check(table)

    def _any_node_will_do(self, view_tables: Sequence[TableName]) -> bool:
        """Whether all nodes are replicas of each other, for every table that a commit changes."""
        is_one_shard = len({node.shard for node in self.cluster.nodes}) == 1
        return (
            self.target.is_replicated
            and is_one_shard
            and all(self.staging.replicas.are_one_group(table) for table in view_tables)
        )


def find_context(
    client: ClickHouseClient,
    declaration: ClusterDeclaration,
    identity: LoadIdentity,
    *,
    token: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> LoadContext:
    """Look up the target on all nodes.

    :param identity: names the table.
    :param token: identifies this process as the owner of its locks.
    :raises TargetError: if the table is missing, differs between nodes, or exists on nodes that the connection leaves
        out.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    """
    located = locate_table(client, declaration, identity.table)
    found, cluster = located.found, located.cluster
    check_coverage(client, found, cluster)
    target = read_target(client, found, cluster)
    ddl_mode = choose_ddl_mode(located.declaration, found, is_replicated=target.is_replicated)
    client = client.within(located.declaration, ddl_mode)
    ledger_table = ledger_name(located.declaration.ledger_table, target.local.database)
    ledger = Ledger(
        client=client,
        cluster=cluster.name,
        name=ledger_table,
        database_engine=found.server.engines.get(ledger_table.database, ""),
        target=target.local,
        load_id=identity.load_id,
        is_replicated=target.is_replicated,
        # The disk of one node may be lost; shared storage is on no node's disk.
        quorum=min(2, cluster.fewest_replicas) if target.is_replicated and not target.is_shared else 0,
    )
    replicas = Replicas(
        client=client,
        cluster=cluster.name,
        nodes=cluster.nodes,
        exist=target.is_replicated or bool(target.views),
        are_shared=target.is_shared,
        lacks_some=located.declaration.lacks_replicas,
        sleep=sleep,
    )
    staging = Staging(
        client=client,
        cluster=cluster.name,
        target=target.local,
        replicas=replicas,
        partitions_per_statement=1 if _copies_one_by_one(ddl_mode, cluster) else PARTITIONS_PER_STATEMENT,
    )
    # In a Replicated database it does not matter which node creates the lock.
    first = min(client.reachable if ddl_mode is DdlMode.DATABASE else (node.host for node in cluster.nodes))
    lock = TargetLock(
        client=client,
        ledger=ledger,
        identity=identity,
        node=first,
        sleep=sleep,
        token=token or uuid.uuid4().hex,
        read_floor=partial(read_floor, Holdings(ledger=ledger, table_uuids=target.uuids), staging),
    )
    return LoadContext(
        client=client,
        cluster=cluster,
        target=target,
        ledger=ledger,
        staging=staging,
        locking=TargetLocking(client=client, ledger=ledger, staging=staging, lock=lock, sleep=sleep),
    )


def read_earlier(holdings: Holdings) -> list[tuple[TableName, History]]:
    """Read, for each name that the table had before, what may be open there."""
    return [(name, holdings.ledger.of(name).read()) for name in holdings.earlier_names]


def read_floor(holdings: Holdings, staging: Staging) -> int:
    """Read the last epoch of the names that the table had before, and of the staging tables that are there."""
    earlier = (history.epoch for _, history in read_earlier(holdings))
    return max((*earlier, *(table.epoch for table in staging.find())), default=0)


def _copies_one_by_one(ddl_mode: DdlMode, cluster: ClusterSpec) -> bool:
    """Whether an ALTER may copy only one partition.

    In a Replicated database, 24.8 commits the transaction with Keeper after the first one, and fails with "Cannot add
    ZooKeeper operation because query is executed"; 25.8 does not. A MOVE of several works in both.
    """
    return ddl_mode is DdlMode.DATABASE and cluster.server_version < (25, 8)
