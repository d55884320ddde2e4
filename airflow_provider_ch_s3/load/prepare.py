"""Everything before the first row: look, refuse, plan, render. Writes nothing."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from airflow_provider_ch_s3.calibration import Calibration
from airflow_provider_ch_s3.cluster import ClusterSpec
from airflow_provider_ch_s3.errors import ConfigError, ServerError, SourceError
from airflow_provider_ch_s3.file_format import is_compressed
from airflow_provider_ch_s3.file_schema import parse_structure
from airflow_provider_ch_s3.inspect.files import query_files, read_select_types, read_source
from airflow_provider_ch_s3.mapping import MappedColumn, map_columns
from airflow_provider_ch_s3.path_columns import type_path_columns
from airflow_provider_ch_s3.protocols import ClickHouseClient, ObjectStore
from airflow_provider_ch_s3.request import LoadIdentity, LoadRequest
from airflow_provider_ch_s3.source import S3Access, SourceFile, SourceSpec, select_files
from airflow_provider_ch_s3.sql import load_queries
from airflow_provider_ch_s3.sql.expressions import parse_expression
from airflow_provider_ch_s3.sql.statement import Statement
from airflow_provider_ch_s3.target import TableName, TargetSpec
from airflow_provider_ch_s3.text_columns import read_text_strictly
from airflow_provider_ch_s3.tuning import (
    LoadFacts,
    LoadPlan,
    PastLoad,
    ServerSetting,
    SettingValue,
    check_given_settings,
    plan_load,
)
from airflow_provider_ch_s3.units import count_of

log = logging.getLogger(__name__)

SAMPLE_ROWS = 10_000
# For the partitions of a load, some files are read for a second at most, and of columnar ones the keys alone.
SAMPLE_FILES = 16
SAMPLE_SECONDS = 1
# Files that begin where others end share a partition with each of their neighbours.
MAX_SHARED_RATIO = 0.8
# Servers that do not reach the store try 500 times, for 40 minutes (26.7); 12 times take half a minute. The load
# itself keeps their patience: a store that is busy for a while must not end the work of hours. It takes the text of
# folders by itself, and 25.8 cannot make columns of some of them on other nodes.
LOOKING = {"s3_retry_attempts": 12, "use_hive_partitioning": 0}
# Bytes in memory for each stored byte, where the rows of a file take too long to count.
MEMORY_PER_STORED_BYTE_TEXT = 1.5
MEMORY_PER_STORED_BYTE_COMPRESSED_TEXT = 4.0
MEMORY_PER_STORED_BYTE_COLUMNAR = 3.0


@dataclass(frozen=True, kw_only=True)
class PreparedLoad:
    """A load that could start now.

    :param plan_with: the plan that a cluster with other constants would make of the same load.
    """

    cluster: ClusterSpec
    source: SourceSpec
    target: TargetSpec
    mapping: tuple[MappedColumn, ...]
    where: str
    plan: LoadPlan
    plan_with: Callable[[Calibration], LoadPlan]

    def insert(self, identity: LoadIdentity, *, into: TableName | None = None) -> Statement:
        """The INSERT, with the plan's settings and, in its ``log_comment``, who loads what.

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
        """Rows that the load must read, where the footers tell.

        To filter by ``_path`` the servers read look-alikes too, so there is no number to compare with then.
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
    past: Mapping[str, PastLoad] = MappingProxyType({}),
    waits_for_replicas: bool = False,
) -> PreparedLoad:
    """Inspect the source, match its columns with the target's, measure a sample, plan the settings.

    :param past: format → what the table's newest load of it measured.
    :param waits_for_replicas: the load does so itself, after the INSERT.
    :raises TargetError: if the table cannot take the files.
    :raises SourceError: if the files cannot be read.
    :raises ConfigError: if the request contradicts itself or what was found.
    """
    server = read_server_settings(client)
    check_given_settings(server, operator=request.settings, connection=request.connection_settings)
    patience = {name: value for name, value in LOOKING.items() if name in server and not server[name].is_readonly}
    looking = {**patience, **request.settings}
    source = read_source(client, access, files, replace(request, settings=looking), target, cluster.name)
    source = read_text_strictly(source, is_given=bool(request.structure))
    source = replace(source, columns=type_path_columns(source.columns, files, target.columns))
    select_types = read_select_types(client, source, request.select, looking)
    mapping = map_columns(
        source.columns, target, columns=request.columns, select=request.select, select_types=select_types
    )
    _log_unused_folders(source, mapping, request, target)

    def plan(source: SourceSpec, calibration: Calibration) -> LoadPlan:
        facts = _facts(cluster, source, target, mapping, request, past.get(source.data_format))
        return plan_load(
            replace(facts, calibration=calibration, waits_for_replicas=waits_for_replicas),
            server=server,
            operator=request.settings,
            connection=request.connection_settings,
        )

    # The sample is read as the load will read, so the settings come first with an estimate, then with its result.
    sent = {**looking, **plan(source, cluster.calibration).sent}
    source = _measure(client, source, mapping, target, where=request.where, settings=sent)
    if source.rows is None and source.data_format not in past:
        source = _count_rows_of_a_file(client, source, settings=sent)
    source = _measure_partitions(client, source, mapping, target.partition_key, settings=sent)
    return PreparedLoad(
        cluster=cluster,
        source=source,
        target=target,
        mapping=mapping,
        where=request.where,
        plan=plan(source, cluster.calibration),
        plan_with=partial(plan, source),
    )


def _log_unused_folders(
    source: SourceSpec, mapping: Sequence[MappedColumn], request: LoadRequest, target: TargetSpec
) -> None:
    used = {column.source for column in mapping}
    unused = [f"{c.name}=…" for c in source.columns if c.in_path and c.name not in used]
    if unused and not request.select and not request.where:
        log.info("the folders %s are no columns of %s: their names are ignored", ", ".join(unused), target.name)


def check_expressions(request: LoadRequest) -> None:
    """See that the SQL in the request can be read, before anything is asked.

    :raises ConfigError: if it cannot.
    """
    if isinstance(request.columns, str):
        raise ConfigError(f"columns is the text {request.columns!r}; write a list: columns=[{request.columns!r}]")
    for expression in request.select.values():
        parse_expression(expression)
    if request.where:
        parse_expression(request.where)
    if request.structure:
        parse_structure(request.structure, frozenset())
    if request.replace_where:
        parse_expression(request.replace_where)


def list_files(store: ObjectStore, request: LoadRequest) -> tuple[SourceFile, ...]:
    """The files that match, sorted by key.

    :raises SourceError: if there are fewer than ``min_files``, or the store cannot be listed.
    """
    files = select_files(store.list_files(request.pattern), request.pattern)
    if len(files) < request.min_files:
        raise SourceError(
            f"{request.pattern} matches {count_of(len(files), 'file')}, and min_files={request.min_files}; wait for"
            " the others to be delivered, or set min_files lower"
        )
    return files


def read_server_settings(client: ClickHouseClient) -> dict[str, ServerSetting]:
    """All settings that the connected server knows, as this user sees them."""
    rows = client.query(load_queries.render_read_settings())
    return {row["name"]: ServerSetting(value=row["value"], is_readonly=bool(row["readonly"])) for row in rows}


def _measure(
    client: ClickHouseClient,
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    target: TargetSpec,
    *,
    where: str,
    settings: Mapping[str, SettingValue],
) -> SourceSpec:
    used = {column.target for column in mapping}
    numbered = [c.name for c in target.columns if c.name in used and c.type.startswith("LowCardinality(")]
    statement = load_queries.render_sample_files(
        source, mapping, numbered=numbered, where=where, limit_rows=SAMPLE_ROWS, settings=settings
    )
    sample = query_files(client, statement, source, target)[0]
    return replace(source, row_bytes=float(sample["mean_row_bytes"]) if sample["row_count"] else None)


def _count_rows_of_a_file(
    client: ClickHouseClient, source: SourceSpec, *, settings: Mapping[str, SettingValue]
) -> SourceSpec:
    """Of the one whose size is nearest to the mean: it stands for the others."""
    mean_bytes = source.size_bytes / len(source.files)
    file = min(source.files, key=lambda file: abs(file.size_bytes - mean_bytes))
    statement = load_queries.render_count_rows(
        replace(source, files=(file,)), seconds=SAMPLE_SECONDS, settings=settings
    )
    try:
        rows = client.query(statement)[0]["row_count"]
    except ServerError as error:
        log.info("cannot count the rows of %s, so the plan guesses how many there are: %s", file.key, error)
        return source
    return replace(source, estimated_rows=int(rows) * source.size_bytes / max(1, file.size_bytes))


def _measure_partitions(
    client: ClickHouseClient,
    source: SourceSpec,
    mapping: Sequence[MappedColumn],
    partition_key: str,
    *,
    settings: Mapping[str, SettingValue],
) -> SourceSpec:
    """Count the partitions of some files, from the first to the last.

    Files that share partitions show nearly all of them in a sample; otherwise each file has its own.
    """
    if not partition_key:
        return source
    step = math.ceil(len(source.files) / SAMPLE_FILES)
    sample = replace(source, files=source.files[::step])
    statement = load_queries.render_sample_partitions(
        sample, mapping, partition_key=partition_key, seconds=SAMPLE_SECONDS, settings=settings
    )
    try:
        rows = client.query(statement)
    except ServerError as error:
        log.info("cannot tell how many partitions the files have, so the plan counts one: %s", error)
        return source
    # No row at all, or one about no file: what a server answers whose time is up before the first file is read.
    found = next((row for row in rows if row["files"]), None)
    if found is None:
        log.info("no file was read within %d s, so the plan counts one partition", SAMPLE_SECONDS)
        return source
    per_file, together = float(found["partitions_per_file"]), float(found["partitions"])
    are_apart = together > MAX_SHARED_RATIO * per_file * found["files"]
    count = per_file * len(source.files) if are_apart else together
    return replace(source, partition_count=count, partitions_per_file=per_file)


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
        volume_bytes=int(source.size_bytes * past.volume_ratio) if past else _volume_bytes(source),
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


def _volume_bytes(source: SourceSpec) -> int:
    rows = source.rows if source.rows is not None else source.estimated_rows
    if rows is not None and source.row_bytes is not None:
        return int(rows * source.row_bytes)
    if source.format.is_typed:
        factor = MEMORY_PER_STORED_BYTE_COLUMNAR
    elif is_compressed(source.files[0].key):
        factor = MEMORY_PER_STORED_BYTE_COMPRESSED_TEXT
    else:
        factor = MEMORY_PER_STORED_BYTE_TEXT
    return int(source.size_bytes * factor)
