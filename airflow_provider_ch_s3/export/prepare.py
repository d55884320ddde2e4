"""Prepare an export: the columns of the query, the settings, the statement; nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration, ClusterSpec
from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.common.timing import Timing
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import LoadError, ServerError, TargetError
from airflow_provider_ch_s3.exactly_once.replicas import Replicas
from airflow_provider_ch_s3.export.manifest import ExportedFile, part_name
from airflow_provider_ch_s3.export.request import ExportRequest
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.source import FileColumn, SourceFile, SourceSpec
from airflow_provider_ch_s3.identity import Life, LoadIdentity
from airflow_provider_ch_s3.introspection.cluster import detect_cluster, read_server
from airflow_provider_ch_s3.introspection.files import check_format
from airflow_provider_ch_s3.introspection.table import locate_table, read_table
from airflow_provider_ch_s3.load.measure import read_sharing
from airflow_provider_ch_s3.load.prepare import plan_inspection, read_server_settings
from airflow_provider_ch_s3.sql.export_queries import (
    PARTITION,
    ExportFiles,
    render_count_by_file,
    render_describe_query,
    render_insert_export,
    select_table,
)
from airflow_provider_ch_s3.table.target import TableName, has_replicas, is_merge_tree, is_shared
from airflow_provider_ch_s3.tuning import EXPORT_RULES, ExportFacts, Plan, SettingValue, plan_query

# Files counted with one statement, which names each file, however long the keys are.
FILES_AT_ONCE = 40


@dataclass(frozen=True, kw_only=True)
class ExportedRows:
    """The rows to export, and where they are.

    :param query: a SELECT of the rows.
    :param local: the table with the parts, if the table has replicas.
    :param are_shared: the replicas work with the same parts, on object storage (SharedMergeTree).
    """

    client: ClickHouseClient
    declaration: ClusterDeclaration
    cluster: ClusterSpec
    query: str
    local: TableName | None = None
    are_shared: bool = False

    def await_replicas(self, timing: Timing) -> None:
        """Wait until each replica has what was written before: a SELECT reads any of the replicas.

        :raises LoadError: if a replica makes no progress any more.
        """
        if self.local is None or self.are_shared:
            return
        replicas = Replicas(
            client=self.client, cluster=self.cluster.name, nodes=self.cluster.nodes, exist=True, timing=timing
        )
        replicas.agree(self.local, is_exact=False, is_staged=False)


def locate_rows(client: ClickHouseClient, declaration: ClusterDeclaration, request: ExportRequest) -> ExportedRows:
    """Find the cluster, and how to read each row once: a local table is read from one replica of each shard.

    :raises TargetError: if the table does not exist.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    """
    if request.query:
        cluster = detect_cluster(client, declaration, read_server(client))
        inside = client.within(declaration, cluster=cluster)
        return ExportedRows(client=inside, declaration=declaration, cluster=cluster, query=request.query)
    located = locate_table(client, declaration, request.table)
    found, cluster = located.found, located.cluster
    tables = read_table(located.client, found.local, cluster.name)
    engine = tables[0]["engine"] if tables else ""
    # a Distributed table may read a replica that the connection leaves out
    is_direct = found.distribution is not None and not located.declaration.lacks_replicas
    is_local = is_merge_tree(engine) and not is_direct
    return ExportedRows(
        client=located.client,
        declaration=located.declaration,
        cluster=cluster,
        query=select_table(found.local, cluster.name) if is_local else select_table(found.name, None),
        local=found.local if has_replicas(engine) else None,
        are_shared=is_shared(engine),
    )


@dataclass(frozen=True, kw_only=True)
class PreparedExport:
    """An export that can begin, or whose files can be counted.

    :param columns: of the query.
    :param count_settings: for reading the files.
    """

    request: ExportRequest
    rows: ExportedRows
    access: StoreAccess
    columns: tuple[FileColumn, ...]
    plan: Plan
    count_settings: Mapping[str, SettingValue]

    @property
    def _consistency(self) -> dict[str, SettingValue]:
        """Shared parts have no log to wait for: the servers ask Keeper which parts there are."""
        return {"select_sequential_consistency": 1} if self.rows.are_shared else {}

    def insert(self, identity: LoadIdentity, query_id: str) -> Statement:
        """Render the INSERT of an attempt."""
        folder = f"{PARTITION}/" if self.request.partition_by else ""
        destination = self.request.destination
        key = f"{destination.prefix}{folder}{part_name(query_id, self.request.extension)}"
        return render_insert_export(
            ExportFiles(
                access=self.access,
                address=self.access.address(destination.bucket, key),
                data_format=self.request.data_format,
                settings={**self.plan.sent, **self._consistency, "log_comment": mark(self.request, identity)},
            ),
            self.rows.query,
            partition_by=self.request.partition_by,
        )

    def count(self, files: tuple[SourceFile, ...]) -> tuple[ExportedFile, ...]:
        """Count the rows of each file by reading the file; only the footers are read if the format has footers.

        :raises ServerError: if a file cannot be read.
        """
        found: list[ExportedFile] = []
        for some in batches(files, FILES_AT_ONCE):
            source = SourceSpec(
                origin=self.request.destination.source,
                access=self.access,
                files=tuple(some),
                data_format=self.request.data_format,
                compression="auto",
                columns=self.columns,
                settings=self.count_settings,
            )
            counted = self.rows.client.query(render_count_by_file(source))
            rows = {row["path"]: int(row["row_count"]) for row in counted}
            found += [
                ExportedFile(
                    key=file.key,
                    size_bytes=file.size_bytes,
                    etag=file.etag,
                    rows=rows.get(source.server_path(file), 0),
                )
                for file in some
            ]
        return tuple(found)


def prepare_export(
    request: ExportRequest, rows: ExportedRows, access: StoreAccess, identity: LoadIdentity
) -> PreparedExport:
    """Ask the server for the columns of the query, which checks the query, and plan the settings.

    :raises TargetError: if the query cannot be run.
    :raises ConfigError: if a setting is wrong, or the servers do not know the kind of credentials.
    """
    client, cluster = rows.client, rows.cluster
    access.check_version(cluster.server_version)
    # Only what can be read back can be verified.
    request = replace(request, data_format=check_format(client, request.data_format))
    server = read_server_settings(client)
    facts = ExportFacts(
        memory_bytes=cluster.weakest.memory_bytes,
        ingest_memory_ratio=cluster.ingest_memory_ratio,
        data_format=request.data_format,
        is_partitioned=bool(request.partition_by),
        sharing=read_sharing(client, cluster, request.limit, identity),
        uses_server_role=access.uses_server_role,
        timeout_seconds=request.timeout_seconds,
    )
    plan = plan_query(
        EXPORT_RULES, facts, server=server, operator=request.settings, connection=request.connection_settings
    )
    return PreparedExport(
        request=request,
        rows=rows,
        access=access,
        columns=_describe(client, rows.query, request.given_settings),
        plan=plan,
        # The given settings may say how the format is written, and so how to read the files.
        count_settings=plan_inspection(server, access, request.given_settings),
    )


def _describe(client: ClickHouseClient, query: str, settings: Mapping[str, SettingValue]) -> tuple[FileColumn, ...]:
    try:
        found = client.query(render_describe_query(query, settings))
    except ServerError as error:
        raise TargetError(
            "query-refused",
            f"the server refuses the query of the export, and nothing was written: {error.sentence}; give one"
            " SELECT without FORMAT and INTO, of tables that this user may read",
        ) from error
    return tuple(FileColumn(name=row["name"], type=row["type"]) for row in found)


def mark(request: ExportRequest, identity: LoadIdentity) -> str:
    """The ``log_comment`` of an INSERT: differs from the INSERTs of other requests and of other lives of the task."""
    return identity.log_comment(life=asdict(identity.life), export=request.fingerprint)


def is_marked(log_comment: str, request: ExportRequest, identity: LoadIdentity) -> bool:
    """Whether an INSERT belongs to this request, in this life of the task."""
    try:
        found = json.loads(log_comment)
        life = decode(Life, found["life"])
        return bool(found["export"] == request.fingerprint) and identity.life.is_that_of(life)
    except (ValueError, TypeError, KeyError, LoadError):
        return False


_ACCESS = "check that the servers reach the store, and that the credentials may write there"
_MEMORY = "export fewer partitions at a time, or lower output_format_parquet_row_group_size_bytes"
_REMEDIES = (
    (r"already exists", "let the task try again: it takes other names"),
    (r"\(S3_ERROR\)|NETWORK_ERROR|POCO_EXCEPTION|DNS_ERROR", _ACCESS),
    (r"\(ACCESS_DENIED\)", "grant the user what `ch-s3 docs permissions` lists for exports"),
    (r"memory limit exceeded", _MEMORY),
    (r"Illegal character", "let partition_by yield other values"),
)


def explain_export(message: str) -> str:
    """Return the server's message, followed by a remedy."""
    remedy = next((text for pattern, text in _REMEDIES if re.search(pattern, message)), "correct the query")
    return f"{message}; nothing was left in the folder: {remedy}"
