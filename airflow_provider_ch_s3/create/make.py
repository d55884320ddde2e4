"""Create the table of a load on every node, unless it exists.

The table on the first node decides the definition: processes at the same time may have looked at different files, so
the remaining nodes get copies of this table. Any process that finds the table missing on some nodes creates the
missing tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec, DdlMode
from airflow_provider_ch_s3.create.columns import read_new_columns
from airflow_provider_ch_s3.create.layout import plan_table
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ServerError, SourceError, TargetError
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.snapshots import Layout
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.introspection.cluster import ConnectedServer, detect_cluster, read_server
from airflow_provider_ch_s3.introspection.files import check_readable
from airflow_provider_ch_s3.introspection.table import read_table
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql.filters import literal
from airflow_provider_ch_s3.sql.table_queries import (
    render_check_types,
    render_copy_table,
    render_create_distributed,
    render_create_table,
)
from airflow_provider_ch_s3.table.new_table import CreateTable, NewColumn, NewTable
from airflow_provider_ch_s3.table.provenance import new_columns
from airflow_provider_ch_s3.table.target import Distribution, TableName, has_replicas, parse_distribution, parse_table

log = get_log(__name__)

LOCAL_SUFFIX = "_local"

Definitions = Mapping[str, Mapping[str, Any]]
"""Node → the node's table."""


@dataclass(frozen=True)
class TableMaker:
    """Creates a table.

    :param read_inspection: reads the request with the settings for looking at the files.
    :param read_layout: reads how a lake lays out rows.
    """

    client: ClickHouseClient
    declaration: ClusterDeclaration
    request: LoadRequest
    read_inspection: Callable[[], LoadRequest]
    create: CreateTable
    access: StoreAccess
    read_layout: Callable[[], Layout] = Layout

    @cached_property
    def server(self) -> ConnectedServer:
        """The connected server."""
        return read_server(self.client)

    @cached_property
    def cluster(self) -> ClusterSpec:
        """The nodes for the table."""
        return detect_cluster(self.client, self.declaration, self.server)

    @cached_property
    def name(self) -> TableName:
        """The table named by the user."""
        return parse_table(self.request.table, self.server.database)

    @property
    def _is_replicated(self) -> bool:
        database = self.server.engines.get(self.name.database, "")
        return database == "Replicated" or self.cluster.shard_count < len(self.cluster.nodes)

    def is_there(self) -> bool:
        """Whether the connected server has the table."""
        return bool(read_table(self.client, self.name, None))

    def plan(self, files: tuple[SourceFile, ...]) -> NewTable:
        """Choose columns, keys and engine.

        :raises ConfigError: if the user's choices contradict the files or the cluster.
        :raises SourceError: if the files cannot be read.
        """
        chosen = self.create.distributed
        is_distributed = self.cluster.shard_count > 1 if chosen is None else chosen
        local = replace(self.name, table=f"{self.name.table}{LOCAL_SUFFIX}") if is_distributed else self.name
        self._check_types()
        check_readable(self.access, files, self.request, self.cluster)
        layout, inspection = self.read_layout(), self.read_inspection()
        try:
            columns = read_new_columns(self.client, self.access, files, inspection, self.cluster.name, layout.types)
        except SourceError as error:
            if not self.request.keeps_bad_rows or error.code not in ("files-unreadable", "value-does-not-fit"):
                raise
            raise SourceError(
                "table-missing",
                "the columns of a new table come from the files, and a row of the files may be bad; create the table"
                f" first, then bad_rows=Reject(…) moves bad rows into a table: {error.sentence}",
            ) from error
        return plan_table(
            self.create,
            self.name,
            local,
            (*columns, *new_columns(self.request.provenance)),
            layout=layout,
            needs_partitions=self.request.mode.needs_partitions,
            cluster=self.cluster.name,
            is_replicated=self._is_replicated,
        )

    def complete(
        self,
        list_files: Callable[[], tuple[SourceFile, ...]],
        check: Callable[[NewTable, tuple[SourceFile, ...]], object],
    ) -> bool:
        """Create the missing tables on all nodes; return whether the table exists then.

        :param list_files: the files for which a new table is planned; without any file, no table is created.
        :param check: checks that a new table can take the files, before the table is created.
        :raises TargetError: if the servers refuse the definition, or the local table belongs to another table.
        """
        found = self._find(self.name)
        distribution = _distribution_of(found)
        if found and not self._lacking(found):
            return True
        if not found:
            files = list_files()
            if not files:
                return False
            new = self.plan(files)
            check(new, files)
            distribution = new.distribution
            self._check_local(new)
            self._create_first(new)
        local = distribution.local if distribution else self.name
        self._copy(local)
        if distribution:
            self._ddl.execute_everywhere(partial(render_create_distributed, self.name, distribution))
        return True

    def _check_types(self) -> None:
        """Check that the types given by the user exist."""
        given = [NewColumn(name=name, type=kind).bare_type for name, kind in self.create.types.items()]
        if not given:
            return
        try:
            self.client.query(render_check_types(given))
        except ServerError as error:
            raise TargetError(
                "type-invalid",
                f"create_table has the types {', '.join(given)}, and ClickHouse does not know all of them:"
                f" {error.sentence}; correct them",
            ) from error

    def _check_local(self, new: NewTable) -> None:
        """Check that an existing local table was created for this table, by a process that died since."""
        for row in self._find(new.local).values():
            if literal(new.comment) not in row["create_table_query"]:
                raise TargetError(
                    "name-taken",
                    f"{new.local} exists, and was not created for {new.name}; rename it, name a table over it, or use"
                    " create_table={'distributed': False}",
                )

    def _create_first(self, new: NewTable) -> None:
        log.info("creating %s, which does not exist yet:\n%s", new.name, describe_table(new))
        try:
            if self._ddl_mode is DdlMode.PER_HOST:
                self._ddl.execute_on([min(self._ddl.reachable)], render_create_table(new, None))
            else:
                self._ddl.execute_everywhere(partial(render_create_table, new))
        except ServerError as error:
            statement = render_create_table(new, None).text
            raise TargetError(
                "table-not-created",
                f"ClickHouse cannot create {new.local}: {error.sentence}; correct create_table, or create the table"
                f" yourself. The statement was:\n{statement}",
            ) from error

    def _copy(self, local: TableName) -> None:
        found = self._find(local)
        if self._ddl_mode is DdlMode.PER_HOST and (lacking := self._lacking(found)):
            definition = found[min(found)]["create_table_query"]
            self._ddl.execute_on(lacking, render_copy_table(definition))

    def _find(self, table: TableName) -> Definitions:
        return {row["node"]: row for row in read_table(self.client, table, self.cluster.name)}

    def _lacking(self, found: Definitions) -> Sequence[str]:
        return [node for node in self.cluster.hosts if node not in found]

    @cached_property
    def _ddl_mode(self) -> DdlMode:
        # Outside of ON CLUSTER, servers do not take a Replicated engine without a path.
        is_replicated = self._is_replicated or has_replicas(self.create.engine)
        return self.server.ddl_mode(self.declaration, self.name.database, is_replicated=is_replicated)

    @cached_property
    def _ddl(self) -> ClickHouseClient:
        return self.client.within(self.declaration, self._ddl_mode, self.cluster)


def describe_table(new: NewTable) -> str:
    """Describe a table to be created: the statements, and the reasons."""
    statements = [render_create_table(new, None).text]
    if new.distribution:
        statements.append(render_create_distributed(new.name, new.distribution, None).text)
    return "\n".join([*(f"{statement};" for statement in statements), *(f"-- {reason}" for reason in new.reasons)])


def _distribution_of(found: Definitions) -> Distribution | None:
    first = next(iter(found.values()), None)
    return parse_distribution(first["engine_full"]) if first and first["engine"] == "Distributed" else None
