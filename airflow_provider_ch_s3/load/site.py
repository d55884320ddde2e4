"""Where a load takes place: the target, and what belongs to it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ch_s3.cluster import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.load.alone import check_alone
from airflow_provider_ch_s3.load.client import ClickHouseClient
from airflow_provider_ch_s3.load.definition import read_definition
from airflow_provider_ch_s3.load.detect import detect_cluster
from airflow_provider_ch_s3.load.inspect import declare_cluster, find_table, read_target
from airflow_provider_ch_s3.load.ledger import Ledger, ledger_name
from airflow_provider_ch_s3.load.lock import TargetLock
from airflow_provider_ch_s3.load.request import LoadIdentity
from airflow_provider_ch_s3.load.staging import Staging, StagingTable
from airflow_provider_ch_s3.load.story import AttemptId
from airflow_provider_ch_s3.load.turn import Turns
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.target import TableName, TargetSpec


@dataclass(frozen=True, kw_only=True)
class Site:
    """The target as it was found, its ledger, its staging tables, and turns at it.

    :param definition: of the target on all nodes, as text that changes with it.
    """

    client: ClickHouseClient
    definition: str
    cluster: ClusterSpec
    target: TargetSpec
    ledger: Ledger
    staging: Staging
    turns: Turns

    def staged(self, attempt: AttemptId) -> TableName:
        """The attempt's staging table, under whatever epoch."""
        epochs = [t.epoch for t in self.staging.find() if t.attempt == attempt and not t.role]
        return self.staging.name(StagingTable(attempt=attempt, epoch=max(epochs, default=attempt.number)))

    def partition_rows(self, table: TableName) -> dict[str, int]:
        """Rows of each partition, over all shards."""
        shards = {node.host: node.shard for node in self.cluster.nodes}
        rows: dict[tuple[str, int], int] = {}
        for row in self.client.query(staging_queries.render_read_partitions(table, self.cluster.name)):
            # replicas of a shard hold the same rows
            key = (row["partition_id"], shards.get(row["node"], 0))
            rows[key] = max(rows.get(key, 0), row["rows"])
        return {p: sum(n for (q, _), n in rows.items() if q == p) for p in sorted({p for p, _ in rows})}


def find_site(
    client: ClickHouseClient,
    declaration: ClusterDeclaration,
    identity: LoadIdentity,
    *,
    token: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> Site:
    """Look the identity's table up on all nodes.

    :param token: of the process, for its locks.
    :raises TargetError: if it is missing, differs between nodes, or lies on nodes that the connection leaves out.
    :raises ClusterError: if the cluster is unknown, or a node does not answer.
    """
    found = find_table(client, identity.table)
    declaration = declare_cluster(declaration, found)
    client = client.within(declaration)
    cluster = detect_cluster(client, declaration)
    check_alone(client, found.local, cluster)
    # First: what is altered after this look is noticed before the commit.
    definition = read_definition(client, found.local, cluster.name)
    target = read_target(client, found, cluster)
    ledger = Ledger(
        client=client,
        cluster=cluster.name,
        name=ledger_name(declaration.ledger_table, target.local.database),
        target=target.local,
    )
    nodes = frozenset(node.host for node in cluster.nodes)
    staging = Staging(client=client, cluster=cluster.name, target=target.local, nodes=nodes)
    lock = TargetLock(
        client=client, ledger=ledger, identity=identity, node=min(nodes), sleep=sleep, token=token or uuid.uuid4().hex
    )
    return Site(
        client=client,
        definition=definition,
        cluster=cluster,
        target=target,
        ledger=ledger,
        staging=staging,
        turns=Turns(client=client, ledger=ledger, staging=staging, lock=lock, sleep=sleep),
    )
