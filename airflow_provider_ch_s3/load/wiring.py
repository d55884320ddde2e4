"""Find the target of a load on all nodes, and wire what belongs to it."""

from __future__ import annotations

import uuid

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, DdlMode
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.exactly_once.holdings import Holdings
from airflow_provider_ch_s3.exactly_once.ledger import Ledger, ledger_name
from airflow_provider_ch_s3.exactly_once.lock import Lock
from airflow_provider_ch_s3.exactly_once.modes.registry import EFFECTS
from airflow_provider_ch_s3.exactly_once.replicas import Replicas
from airflow_provider_ch_s3.exactly_once.staging import PARTITIONS_PER_STATEMENT, Staging
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.introspection.table import check_coverage, locate_table, read_target


def find_target(
    client: ClickHouseClient,
    declaration: ClusterDeclaration,
    identity: LoadIdentity,
    *,
    token: str = "",
    timing: Timing = REAL_TIME,
) -> Target:
    """Look up the target on all nodes.

    :param identity: names the table.
    :param token: identifies this process as an owner.
    :raises TargetError: if the table is missing, differs between nodes, or exists on nodes that the connection leaves
        out.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    """
    located = locate_table(client, declaration, identity.table)
    found, cluster = located.found, located.cluster
    check_coverage(client, found, cluster)
    spec = read_target(client, found, cluster)
    ddl_mode = found.server.ddl_mode(located.declaration, found.local.database, is_replicated=spec.is_replicated)
    client = located.client.within(located.declaration, ddl_mode, cluster)
    ledger_table = ledger_name(located.declaration.ledger_table, spec.local.database)
    ledger = Ledger(
        client=client,
        cluster=cluster.name,
        name=ledger_table,
        database_engine=found.server.engines.get(ledger_table.database, ""),
        target=spec.local,
        table_uuids=spec.uuids,
        load_id=identity.load_id,
        login=client.login,
        is_replicated=spec.is_replicated,
        # The disk of one node may be lost; shared storage is on no node's disk.
        quorum=min(2, cluster.fewest_replicas) if spec.is_replicated and not spec.is_shared else 0,
    )
    replicas = Replicas(
        client=client,
        cluster=cluster.name,
        nodes=cluster.nodes,
        exist=spec.is_replicated or bool(spec.views),
        are_shared=spec.is_shared,
        lacks_some=located.declaration.lacks_replicas,
        timing=timing,
    )
    staging = Staging(
        client=client,
        cluster=cluster.name,
        target=spec.local,
        replicas=replicas,
        partitions_per_statement=1 if _copies_one_by_one(ddl_mode, cluster) else PARTITIONS_PER_STATEMENT,
        alters_all_nodes=ddl_mode is DdlMode.DATABASE,
    )
    lock = Lock(
        client=client,
        ledger=ledger,
        staging=staging,
        identity=identity,
        node=choose_lock_node(client, cluster, ddl_mode),
        timing=timing,
        token=token or uuid.uuid4().hex,
    )
    holdings = Holdings(ledger=ledger, effects=EFFECTS)
    return Target(
        client=client, cluster=cluster, spec=spec, ledger=ledger, staging=staging, lock=lock, holdings=holdings
    )


def choose_lock_node(client: ClickHouseClient, cluster: ClusterSpec, ddl_mode: DdlMode) -> str:
    """The node that decides who gets the lock: the first node, whether or not this connection reaches the node.

    In a Replicated database any node may create the tables; then the first node in reach decides.
    """
    hosts = set(cluster.hosts)
    return min((hosts & client.reachable if ddl_mode is DdlMode.DATABASE else hosts) or hosts)


def _copies_one_by_one(ddl_mode: DdlMode, cluster: ClusterSpec) -> bool:
    """Whether an ALTER may copy only one partition.

    In a Replicated database, 24.8 commits the transaction with Keeper after the first one, and fails with "Cannot add
    ZooKeeper operation because query is executed"; 25.8 does not. A MOVE of several works in both.
    """
    return ddl_mode is DdlMode.DATABASE and cluster.server_version < (25, 8)
