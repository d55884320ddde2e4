"""Prepare a load: inspect, check, plan and render, without writing anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from airflow_provider_ch_s3.calibration import Calibration
from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.file_schema import parse_structure
from airflow_provider_ch_s3.inspect.files import read_select_types, read_source
from airflow_provider_ch_s3.load import sample
from airflow_provider_ch_s3.mapping import MappedColumn, map_columns
from airflow_provider_ch_s3.path_columns import type_path_columns
from airflow_provider_ch_s3.protocols import ClickHouseClient
from airflow_provider_ch_s3.request import LoadIdentity, LoadRequest
from airflow_provider_ch_s3.s3_access import S3Access
from airflow_provider_ch_s3.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.sql import load_queries
from airflow_provider_ch_s3.sql.expressions import parse_expression
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName, TargetSpec
from airflow_provider_ch_s3.text_columns import read_text_strictly
from airflow_provider_ch_s3.tuning import (
    LoadFacts,
    LoadPlan,
    MemorySharing,
    PastLoad,
    ServerSetting,
    check_given_settings,
    plan_load,
)

log = logging.getLogger(__name__)

# A server that cannot reach the store tries 500 times, for 40 minutes (26.7); 12 attempts take half a minute. The
# load itself keeps the server's number: a store that is busy for a while must not end hours of work. The load
# converts the text of folders itself, and 25.8 cannot turn some of them into columns on other nodes.
INSPECTION_SETTINGS = {"s3_retry_attempts": 12, "use_hive_partitioning": 0}


@dataclass(frozen=True, kw_only=True)
class PreparedLoad:
    """A load that is ready to start.

    :param plan_with: computes the plan of the same load for a cluster with other constants.
    :param sharing: the loads among which the memory of the nodes is divided.
    """

    cluster: ClusterSpec
    source: SourceSpec
    target: TargetSpec
    mapping: tuple[MappedColumn, ...]
    where: str
    plan: LoadPlan
    plan_with: Callable[[Calibration], LoadPlan]
    sharing: MemorySharing

    def insert(self, identity: LoadIdentity, *, into: TableName | None = None) -> Statement:
        """Render the INSERT, with the plan's settings and, in its ``log_comment``, the load's identity and size.

        :param into: a staging table; None for the target itself.
        """
        comment = identity.log_comment(files=len(self.source.files), bytes=self.source.size_bytes, rows=self.rows)
        return load_queries.render_insert_load(
            self.source,
            self.target.staged_in(into) if into else self.target,
            self.mapping,
            cluster=self.cluster.name,
            where=self.where,
            settings={**self.plan.sent, "log_comment": comment},
        )

    @property
    def rows(self) -> int | None:
        """Rows that the load must read; None if there are no footers.

        With a filter on ``_path`` the servers also read files with similar names, so the number is unknown then.
        """
        return None if self.source.path_filter else self.source.rows


def prepare_load(
    client: ClickHouseClient,
    request: LoadRequest,
    cluster: ClusterSpec,
    target: TargetSpec,
    *,
    access: S3Access,
    files: tuple[SourceFile, ...],
    read_sharing: Callable[[], MemorySharing],
    past: Mapping[str, PastLoad] = MappingProxyType({}),
    waits_for_replicas: bool = False,
) -> PreparedLoad:
    """Inspect the source, match its columns with the target's, measure a sample, plan the settings.

    :param read_sharing: counts the loads among which the memory of the nodes is divided.
    :param past: format → measurements of the table's latest load of it.
    :param waits_for_replicas: the load itself waits for replicas, after the INSERT.
    :raises TargetError: if the table cannot take the files.
    :raises SourceError: if the files cannot be read.
    :raises ConfigError: if the request contradicts itself or what was found.
    """
    server = read_server_settings(client)
    check_given_settings(server, operator=request.settings, connection=request.connection_settings)
    changeable = {name for name, setting in server.items() if not setting.is_readonly}
    for_inspection = {n: value for n, value in INSPECTION_SETTINGS.items() if n in changeable} | {**request.settings}
    source = read_source(client, access, files, replace(request, settings=for_inspection), target, cluster.name)
    source = read_text_strictly(source, is_given=bool(request.structure))
    source = replace(source, columns=type_path_columns(source.columns, files, target.columns))
    select_types = read_select_types(client, source, request.select, for_inspection)
    mapping = map_columns(
        source.columns, target, columns=request.columns, select=request.select, select_types=select_types
    )
    _log_unused_folders(source, mapping, request, target)

    def plan(source: SourceSpec, sharing: MemorySharing, calibration: Calibration) -> LoadPlan:
        facts = _facts(cluster, source, target, mapping, request, past.get(source.data_format))
        return plan_load(
            replace(facts, calibration=calibration, sharing=sharing, waits_for_replicas=waits_for_replicas),
            server=server,
            operator=request.settings,
            connection=request.connection_settings,
        )

    # The sample is read with the settings of the load, so these are planned twice: before the sample, and with it.
    sent = {**for_inspection, **plan(source, MemorySharing(), cluster.calibration).sent}
    source = sample.measure_rows(client, source, mapping, target, where=request.where, settings=sent)
    if source.rows is None and source.data_format not in past:
        source = sample.estimate_row_count(client, source, settings=sent)
    source = sample.count_partitions(client, source, mapping, target.partition_key, settings=sent)
    sharing = read_sharing()  # last of all: a load that starts in the meantime is counted, too
    return PreparedLoad(
        cluster=cluster,
        source=source,
        target=target,
        mapping=mapping,
        where=request.where,
        plan=plan(source, sharing, cluster.calibration),
        plan_with=partial(plan, source, sharing),
        sharing=sharing,
    )


def _log_unused_folders(
    source: SourceSpec, mapping: Sequence[MappedColumn], request: LoadRequest, target: TargetSpec
) -> None:
    used = {column.source for column in mapping}
    unused = [f"{c.name}=…" for c in source.columns if c.in_path and c.name not in used]
    if unused and not request.select and not request.where:
        log.info("the folders %s match no columns of %s: their values are ignored", ", ".join(unused), target.name)


def check_expressions(request: LoadRequest) -> None:
    """Check that the SQL in the request can be parsed, before anything is sent to a server.

    :raises ConfigError: if it cannot.
    """
    if isinstance(request.columns, str):
        raise ConfigError(f"columns is the string {request.columns!r}; write a list: columns=[{request.columns!r}]")
    for expression in request.select.values():
        parse_expression(expression)
    if request.where:
        parse_expression(request.where)
    if request.structure:
        parse_structure(request.structure, frozenset())
    if request.replace_where:
        parse_expression(request.replace_where)


def read_server_settings(client: ClickHouseClient) -> dict[str, ServerSetting]:
    """Read all settings of the connected server, as this user sees them."""
    rows = client.query(load_queries.render_read_settings())
    return {row["name"]: ServerSetting(value=row["value"], is_readonly=bool(row["readonly"])) for row in rows}


def _facts(
    cluster: ClusterSpec,
    source: SourceSpec,
    target: TargetSpec,
    mapping: Sequence[MappedColumn],
    request: LoadRequest,
    past: PastLoad | None,
) -> LoadFacts:
    distribution = target.distribution
    return LoadFacts(
        node_count=cluster.node_count,
        vcpus=cluster.weakest.vcpus,
        memory_bytes=cluster.weakest.memory_bytes,
        ingest_memory_ratio=cluster.ingest_memory_ratio,
        file_count=len(source.files),
        size_bytes=source.size_bytes,
        volume_bytes=int(source.size_bytes * past.volume_ratio) if past else sample.estimate_volume_bytes(source),
        data_format=source.data_format,
        column_count=len(target.columns),
        is_clustered=cluster.name is not None,
        keeps_rows_where_read=distribution is None or distribution.is_random,
        sharding_key=distribution.sharding_key if distribution else "",
        partition_key=target.partition_key,
        partition_count=source.partition_count,
        partitions_per_file=source.partitions_per_file,
        past=past,
        takes_all_columns=request.columns is None and not request.select,
        reads_other_files=bool(source.path_filter),
        has_path_columns=any(c.in_path for c in source.columns),
        parses_times=not source.format.is_typed and any("Date" in column.type for column in target.columns),
        timeout_seconds=request.timeout_seconds,
    )
