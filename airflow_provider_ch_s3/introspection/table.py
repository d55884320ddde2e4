"""The target table on every node; staged rows fit only as long as the table's definition stays the same."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import REPLICATED_DATABASES, ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.common.text import count_of, find_nearest
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    ClusterError,
    ColumnsDifferError,
    ConfigError,
    ServerError,
    TargetChangingError,
    TargetError,
)
from airflow_provider_ch_s3.introspection.cluster import ConnectedServer, detect_cluster, read_server
from airflow_provider_ch_s3.sql import merge_queries, table_queries
from airflow_provider_ch_s3.table.target import (
    Distribution,
    TableColumn,
    TableName,
    TableSize,
    TargetSpec,
    defines_disk,
    engine_arguments,
    engine_of,
    is_merge_tree,
    parse_distribution,
    parse_table,
)

log = get_log(__name__)

# Engines besides the MergeTree family that accept inserts from several threads and nodes at once.
_PARALLEL_ENGINES = frozenset({"Memory", "Log", "TinyLog", "StripeLog", "Null"})


@dataclass(frozen=True, kw_only=True)
class FoundTable:
    """The table as the connected server sees it.

    :param rows: what :func:`read_table` has read there.
    """

    server: ConnectedServer
    name: TableName
    distribution: Distribution | None
    rows: Sequence[Mapping[str, Any]] = ()

    @property
    def local(self) -> TableName:
        """The table with the parts."""
        return self.distribution.local if self.distribution else self.name

    @property
    def database_engine(self) -> str:
        """Engine of the local table's database; '' if the database does not exist on the connected server."""
        return self.server.engines.get(self.local.database, "")


def find_table(client: ClickHouseClient, text: str) -> FoundTable:
    """Look up the table on the connected server.

    :raises TargetError: if the table does not exist.
    """
    server = read_server(client)
    name = parse_table(text, server.database)
    rows = read_table(client, name, None)
    if not rows:
        names = [row["name"] for row in client.query(table_queries.render_read_names(name.database))]
        near = find_nearest(name.table, names)
        guess = f"did you mean {near!r}? Otherwise " if near else ""
        raise TargetChangingError(
            "table-missing",
            f"table {name} does not exist on the connected server, or this user may not see it; {guess}create the"
            " table on every node, have the load create it with create_table='auto', correct table=, or grant the"
            " user the rights in `ch-s3 docs permissions`",
        )
    distribution = None
    if rows[0]["engine"] == "Distributed":
        distribution = parse_distribution(rows[0]["engine_full"])
        distribution = replace(distribution, cluster=server.fill_in(distribution.cluster))
    return FoundTable(server=server, name=name, distribution=distribution, rows=rows)


def read_table(client: ClickHouseClient, table: TableName, cluster: str | None) -> list[dict[str, Any]]:
    """Read definition, engine, keys and views of a table, for each node with the table."""
    return client.query(table_queries.render_read_table(table, cluster))


def views_of(row: Mapping[str, Any]) -> tuple[TableName, ...]:
    """The materialized views that a table feeds, from a row of :func:`read_table`."""
    return tuple(TableName(database=database, table=table) for database, table in row["views"])


def declare_cluster(declaration: ClusterDeclaration, found: FoundTable) -> ClusterDeclaration:
    """Take the cluster from the Distributed table, if the connection names none.

    A declared cluster without some replicas may differ from the table's cluster, if every shard is in it.

    :raises ConfigError: if both name a cluster and the clusters differ: nothing in one cluster can be seen through
        the other.
    """
    if found.distribution is None and declaration.cluster is None and declaration.http_endpoints:
        raise ConfigError(
            "cluster-not-named",
            f"the connection lists {', '.join(declaration.http_endpoints)} in http_endpoints, but neither it nor the"
            f" local table {found.name} names their cluster; set the connection's field cluster, or leave"
            " http_endpoints empty to load into one node only",
        )
    if found.distribution is None or declaration.cluster == found.distribution.cluster:
        return declaration
    if declaration.cluster is None:
        return replace(declaration, cluster=found.distribution.cluster)
    if declaration.lacks_replicas:
        _check_same_shards(found.server, declaration.cluster, found.name, found.distribution.cluster)
        return declaration
    raise ConfigError(
        "clusters-differ",
        f"the connection names the cluster {declaration.cluster!r}, but the Distributed table {found.name} uses the"
        f" cluster {found.distribution.cluster!r}; set the connection's field cluster to"
        f" {found.distribution.cluster!r}, or leave it empty",
    )


def _check_same_shards(server: ConnectedServer, cluster: str, table: TableName, table_cluster: str) -> None:
    """:param table_cluster: the cluster of the Distributed table."""
    shards, table_shards = (
        sorted({member.shard for member in server.members(name)}) for name in (cluster, table_cluster)
    )
    if shards != table_shards:
        raise ConfigError(
            "clusters-differ",
            f"the connection's cluster {cluster!r} has {count_of(len(shards), 'shard')}, but {table_cluster!r}, the"
            f" cluster of the Distributed table {table}, has {len(table_shards)}: with replicas='one' it may lack"
            " replicas, but no shard; name a cluster with a replica of each shard",
        )


@dataclass(frozen=True, kw_only=True)
class Located:
    """A table, the cluster, and the client for both.

    :param declaration: the connection's, with the cluster filled in from the table if the connection names none.
    """

    client: ClickHouseClient
    declaration: ClusterDeclaration
    cluster: ClusterSpec
    found: FoundTable


def locate_table(client: ClickHouseClient, declaration: ClusterDeclaration, table: str) -> Located:
    """Look up a table and the table's cluster.

    :param table: ``table`` or ``database.table``, local or Distributed.
    :raises TargetError: if the table does not exist.
    :raises ConfigError: if the connection and the table name different clusters, or the connection names none and the
        user may not query the nodes of the table's cluster.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    """
    found = find_table(client, table)
    named, declaration = declaration.cluster, declare_cluster(declaration, found)
    try:
        cluster = detect_cluster(client, declaration, found.server)
    except ClusterError as error:
        if named or not declaration.cluster or error.code != "grant-missing":
            raise
        raise ConfigError(
            "cluster-not-named",
            f"{found.name} is a Distributed table over the cluster {declaration.cluster!r}, which the connection does"
            f" not name; set the connection's field cluster to {declaration.cluster!r}, and have an administrator run"
            f" what `ch-s3 doctor --grants` prints then: {error.sentence}",
        ) from error
    inside = client.within(declaration, cluster=cluster)
    return Located(client=inside, declaration=declaration, cluster=cluster, found=found)


def check_coverage(client: ClickHouseClient, found: FoundTable, cluster: ClusterSpec) -> None:
    """Check that no cluster of the connected server has the table on nodes outside of the load.

    The load's files and lock would be unknown there.

    :raises TargetError: if a cluster has.
    """
    if found.database_engine in REPLICATED_DATABASES:
        return  # every node sees what any node writes
    table = found.local
    own_nodes = set(cluster.hosts)
    named = f"only the cluster {cluster.name!r}" if cluster.name else "no cluster"
    for other in _wider_clusters(found.server, cluster.name):
        try:
            rows = client.query(table_queries.render_find_on_nodes(table, other))
        except ServerError as error:  # a user who may not query other servers cannot load into them either
            log.info("cannot check whether %s also exists on other nodes of %s: %s", table, other, error)
            continue
        if others := {node["node"] for node in rows} - own_nodes:
            raise TargetError(
                "nodes-not-covered",
                f"{table} also exists on {', '.join(sorted(others))} of the cluster {other!r}, and the"
                f" connection names {named}, so these nodes would not be part of the load; set the connection's"
                f" field cluster to {other!r}, or, if the tables are unrelated, give them different names",
            )


def _wider_clusters(server: ConnectedServer, cluster: str | None) -> list[str]:
    """Clusters of the connected server with members outside of the load's own cluster."""
    own = {member.address for member in server.members(cluster)}
    return [
        name
        for name, members in sorted(server.clusters.items())
        if any(member.is_connected for member in members)
        and len(members) > 1
        and not {member.address for member in members} <= own
    ]


def read_target(client: ClickHouseClient, found: FoundTable, cluster: ClusterSpec) -> TargetSpec:
    """Read the definition of the table on every node.

    :raises TargetError: if a node lacks the table, or has the table with other columns, defaults, keys or another
        engine, or the engine does not support parallel inserts.
    """
    local = found.local
    _check_addressable(local, cluster)
    # Before the columns: a later ALTER then changes the definition, which the commit compares.
    rows = read_table(client, local, cluster.name) if cluster.name else found.rows
    tables = {row["node"]: row for row in rows}
    for node, row in tables.items():
        _check_engine(local, row["engine"], node)
    lacking = [node for node in cluster.hosts if node not in tables]
    if lacking:
        raise TargetChangingError(
            "table-missing",
            f"table {local} does not exist on {', '.join(lacking)}, and each node of the cluster"
            f" {cluster.name!r} writes a share; create it there too",
        )
    _check_same_tables(local, tables)
    columns = _same_columns(read_columns(client, local, cluster.name), local)
    if found.distribution:
        own = _same_columns(read_columns(client, found.name, None), found.name)
        # A Distributed table need not repeat the DEFAULTs: the local tables compute them.
        names = found.name, local
        _compare_columns(names, {f"{c.name} {c.type}" for c in own}, {f"{c.name} {c.type}" for c in columns})
        columns = own
    first = next(iter(tables.values()))
    return TargetSpec(
        name=found.name,
        local=local,
        engine=first["engine"],
        columns=columns,
        partition_key=first["partition_key"],
        sorting_key=first["sorting_key"],
        engine_arguments=engine_arguments(first["engine_full"]),
        distribution=found.distribution,
        spans_cluster=found.distribution is None and cluster.shard_count > 1,
        uuids=tuple(sorted({row["uuid"] for row in tables.values()})),
        views=tuple(sorted({v for row in (*found.rows, *rows) for v in views_of(row)}, key=str)),
        has_ttl=any(row["has_ttl"] for row in tables.values()),
        has_projections=any(row["has_projections"] for row in tables.values()),
        has_unique_key=any(row["has_unique_key"] for row in tables.values()),
        has_own_disk=any(defines_disk(row["engine_full"]) for row in tables.values()),
        storage_policies=frozenset(row["storage_policy"] for row in tables.values()),
        definition=fingerprint(tables.values()),
    )


def read_sizes(client: ClickHouseClient, table: TableName, cluster: str | None) -> dict[str, TableSize]:
    """Read how much each partition of a local table holds on all shards."""
    rows = client.query(merge_queries.render_read_sizes(table, cluster))
    return {row["partition_id"]: TableSize(partitions=1, rows=row["rows"], bytes=row["bytes"]) for row in rows}


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A volume of a table's storage policy on one node.

    :param is_first: new parts go there, as long as there is room.
    :param free_bytes: room on all disks of the volume, of ``total_bytes``.
    """

    node: str
    policy: str
    name: str
    is_first: bool
    is_remote: bool
    free_bytes: int
    total_bytes: int


def read_volumes(client: ClickHouseClient, target: TargetSpec, cluster: str | None) -> tuple[Volume, ...]:
    """Read where new parts of a table go, on all nodes; empty if this user may not know."""
    policies = sorted(target.storage_policies - {""})
    if not policies:
        return ()
    try:
        rows = client.query(table_queries.render_read_volumes(policies, cluster))
    except ServerError as error:
        log.info("the disks of the storage policies %s remain unknown: %s", ", ".join(policies), error)
        return ()
    return tuple(
        Volume(**{**row, "is_first": bool(row["is_first"]), "is_remote": bool(row["is_remote"])}) for row in rows
    )


def _check_addressable(table: TableName, cluster: ClusterSpec) -> None:
    # cluster() and similar functions split the name of the database at the dot, however quoted (seen on 26.7)
    if cluster.name is not None and "." in table.database:
        raise TargetError(
            "database-name-unsupported",
            f"{table} cannot be loaded on the cluster {cluster.name!r}: ClickHouse's table functions cannot address a"
            f" database with a dot in its name, such as {table.database!r}; rename the database (RENAME DATABASE), or"
            " leave the connection's field cluster empty to load on one node",
        )


def _check_engine(table: TableName, engine: str, node: str) -> None:
    if not is_merge_tree(engine) and engine not in _PARALLEL_ENGINES:
        raise TargetError(
            "engine-not-loadable",
            f"{table} is a {engine} table on {node}, and a load writes in parallel: into a MergeTree, Memory, Log or"
            " Null table on each node, or a Distributed table over them; name such a table, e.g. the one behind it",
        )


def read_columns(
    client: ClickHouseClient, table: TableName, cluster: str | None
) -> dict[str, tuple[TableColumn, ...]]:
    """Read the columns of a table in their order, by node."""
    by_node: dict[str, list[TableColumn]] = defaultdict(list)
    for row in client.query(table_queries.render_read_columns(table, cluster)):
        column = TableColumn(
            name=row["name"],
            type=row["type"],
            default_kind=row["default_kind"],
            default_expression=row["default_expression"],
        )
        by_node[row["node"]].append(column)
    return {node: tuple(columns) for node, columns in by_node.items()}


def _check_same_tables(table: TableName, tables: Mapping[str, Mapping[str, Any]]) -> None:
    """:raises TargetChangingError: if engine or keys differ between two nodes."""
    (first, expected), *others = tables.items()
    for node, row in others:
        for what, one, other in (
            ("the engine", engine_of(expected["engine_full"]), engine_of(row["engine_full"])),
            ("PARTITION BY", expected["partition_key"], row["partition_key"]),
            ("ORDER BY", expected["sorting_key"], row["sorting_key"]),
        ):
            if one != other:
                raise TargetChangingError(
                    "tables-differ",
                    f"{table} differs between nodes: {what} is {one or 'missing'} on {first} and"
                    f" {other or 'missing'} on {node}; make the tables the same, so that all nodes treat rows alike",
                )


def _same_columns(by_node: Mapping[str, tuple[TableColumn, ...]], table: TableName) -> tuple[TableColumn, ...]:
    nodes = list(by_node)
    for node in nodes[1:]:
        names = f"{table} on {nodes[0]}", f"{table} on {node}"
        _compare_columns(names, {str(c) for c in by_node[nodes[0]]}, {str(c) for c in by_node[node]})
    return by_node[nodes[0]]


def _compare_columns(names: tuple[object, object], columns: set[str], others: set[str]) -> None:
    if columns != others:
        raise ColumnsDifferError(
            "tables-differ",
            f"the columns of {names[0]} and {names[1]} differ in {', '.join(sorted(columns ^ others))}; make them the"
            " same with ALTER TABLE",
        )


def read_definition(client: ClickHouseClient, table: TableName, cluster: str | None) -> str:
    """Return a fingerprint of the table's definition on all nodes.

    The fingerprint changes with any ALTER on any node, if the table is dropped and re-created, and if the table
    begins to feed another view: rows staged before do not contain the view's rows.
    """
    return fingerprint(read_table(client, table, cluster))


def fingerprint(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the fingerprint of a table from the table's row of each node."""
    definitions = [[row["node"], row["uuid"], row["create_table_query"], sorted(row["views"])] for row in rows]
    return hashlib.sha256(json.dumps(definitions).encode()).hexdigest()
