"""Prepare a load: inspect, check, plan and render, without writing anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType

from airflow_provider_ch_s3.bad_rows.lines import check_target, read_line_format
from airflow_provider_ch_s3.clickhouse.column_types import base_type, family, integer_range, plain_type
from airflow_provider_ch_s3.clickhouse.common_type import widened_type
from airflow_provider_ch_s3.clickhouse.expressions import find_names, find_server_bound
from airflow_provider_ch_s3.clickhouse.statement import Statement
from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.text import format_seconds, show_name
from airflow_provider_ch_s3.common.work import at_once, log_folded
from airflow_provider_ch_s3.create.observe import ANY_NUMBER, kept_form
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.target import check_provenance
from airflow_provider_ch_s3.files.access import StoreAccess
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.data_format import CSV_SKIP_SETTING, TRIM_SETTING, TSV_SKIP_SETTING
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.introspection.files import (
    check_condition,
    check_readable,
    find_renamed_in,
    read_select_types,
    read_source,
    with_dialect,
)
from airflow_provider_ch_s3.introspection.schemas import is_used
from airflow_provider_ch_s3.introspection.table import Volume, read_sizes, read_volumes
from airflow_provider_ch_s3.load import measure
from airflow_provider_ch_s3.load.checks import check_sent_once, check_space
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import load_queries, server_queries
from airflow_provider_ch_s3.sql.filters import short_identifier
from airflow_provider_ch_s3.sql.line_queries import render_insert_lines
from airflow_provider_ch_s3.table.bad_rows import LineFormat
from airflow_provider_ch_s3.table.file_schema import read_nulls
from airflow_provider_ch_s3.table.mapping import MappedColumn, find_sources, map_columns
from airflow_provider_ch_s3.table.merge_rule import DELETED, MergeRule
from airflow_provider_ch_s3.table.new_table import NewTable
from airflow_provider_ch_s3.table.path_columns import has_folders, type_path_columns
from airflow_provider_ch_s3.table.provenance import (
    check_filled_once,
    check_not_hidden,
    check_numbered,
    check_numbers_rows,
    map_provenance,
    without_provenance,
)
from airflow_provider_ch_s3.table.target import TableName, TableSize, TargetSpec
from airflow_provider_ch_s3.table.text_columns import find_open_quotes, hold_to_forms, read_text_strictly
from airflow_provider_ch_s3.tuning import (
    LoadFacts,
    LoadPlan,
    MemorySharing,
    PastLoad,
    Prediction,
    Reduction,
    ServerSetting,
    Setting,
    SettingValue,
    check_given_settings,
    check_profile,
    plan_load,
)
from airflow_provider_ch_s3.tuning.read import s3_allow_server_credentials_in_user_queries

log = get_log(__name__)

# The load converts the text of folders itself, and 25.8 cannot turn some of them into columns on other nodes.
# A header is read in the first line, with the spaces with which the load reads it.
INSPECTION_SETTINGS = {"use_hive_partitioning": 0, TRIM_SETTING: 0, CSV_SKIP_SETTING: 0, TSV_SKIP_SETTING: 0}


@dataclass(frozen=True, kw_only=True)
class PreparedLoad:
    """A load ready to start.

    :param plan_for: computes the plan of the same load for a cluster with different hardware or constants.
    :param sharing: the loads among which the memory of the nodes is divided.
    :param chunk: the part of the source that ``source`` has.
    :param merge: how rows are merged by their keys; None in other modes.
    :param held: what the table holds now, if rows are merged.
    :param rewritten: what the merge is expected to write again of ``held``; None if unknown.
    :param volumes: where new parts of the table go; empty where this user may not know.
    :param line_format: how lines become rows, if bad rows go to a table of their own; None to read the format as it
        is.
    :param new_table: the target, if it does not exist yet.
    """

    cluster: ClusterSpec
    source: SourceSpec
    target: TargetSpec
    mapping: tuple[MappedColumn, ...]
    where: str
    plan: LoadPlan
    plan_for: Callable[[ClusterSpec], LoadPlan]
    sharing: MemorySharing
    chunk: Chunk = field(default_factory=Chunk)
    merge: MergeRule | None = None
    held: TableSize | None = None
    rewritten: TableSize | None = None
    volumes: tuple[Volume, ...] = ()
    line_format: LineFormat | None = None
    new_table: NewTable | None = None

    def on(self, cluster: ClusterSpec) -> PreparedLoad:
        """The same load, planned for a different cluster."""
        return replace(self, cluster=cluster, plan=self.plan_for(cluster))

    def insert(self, identity: LoadIdentity, *, into: TableName | None = None) -> Statement:
        """Render the INSERT, with the plan's settings and, in its ``log_comment``, the load's identity and size.

        :param into: a staging table; None for the target itself.
        """
        chunk = {} if self.chunk.is_only else {"chunk": self.chunk.as_dict()}
        alone = {"is_read_by_one": True} if self.source.changes else {}
        comment = identity.log_comment(
            files=len(self.source.files), bytes=self.source.size_bytes, rows=self.rows, **alone, **chunk
        )
        source = replace(self.source, settings={**self.plan.in_text, "log_comment": comment})
        target = self.target.staged_in(into) if into else self.target
        if self.line_format:
            statement = render_insert_lines(
                source,
                target.name,
                cluster=self.cluster.name,
                spans_cluster=target.spans_cluster,
                line_format=self.line_format,
            )
        else:
            mapping = (*self.mapping, *_mark_deletions(self.merge)) if into else self.mapping
            statement = load_queries.render_insert_load(
                source,
                target,
                mapping,
                cluster=self.cluster.name,
                where=self.where,
                key=self.merge.key if self.merge else (),
            )
        return replace(statement, settings=self.plan.guards)

    @property
    def source_columns(self) -> dict[str, list[str]]:
        """Column of the table → the columns of the files that the value comes from."""
        return find_sources(self.mapping, self.source.columns)

    @property
    def rows(self) -> int | None:
        """Rows that the load must read; None if there are no footers.

        With a filter on ``_path``, the servers also read files with similar names; with change data, also delete
        files. Then the number is unknown.
        """
        return None if self.source.path_filter or self.source.changes else self.source.rows


def prepare_load(
    client: ClickHouseClient,
    request: LoadRequest,
    cluster: ClusterSpec,
    target: TargetSpec,
    *,
    access: StoreAccess,
    files: tuple[SourceFile, ...],
    read_sharing: Callable[[], MemorySharing],
    past: Mapping[str, PastLoad] = MappingProxyType({}),
    reduction: Reduction | None = None,
    waits_for_replicas: bool = False,
    folder_types: Mapping[str, str] = MappingProxyType({}),
    may_list: bool = False,
) -> PreparedLoad:
    """Inspect the source, match the columns with the target's, measure a sample, plan the settings.

    :param read_sharing: counts the loads among which the memory of the nodes is divided.
    :param past: format → measurements of the table's latest load of the format.
    :param reduction: how far the load is reduced after an INSERT of this try failed; None to go by the last load.
    :param waits_for_replicas: the load itself waits for replicas, after the INSERT.
    :param folder_types: column of the folders → type of its values, where known.
    :param may_list: the files are a listing of the source, so the servers may list them.
    :raises TargetError: if the table cannot take the files.
    :raises SourceError: if the files cannot be read, or the credentials expire before the load is expected to end.
    :raises ConfigError: if the request contradicts itself, the files or the table.
    """
    check_readable(access, files, request, cluster)
    request, past = _of_changes(request, past, files)
    server, volumes = at_once(
        lambda: read_server_settings(client, cluster), lambda: read_volumes(client, target, cluster.name)
    )
    check_given_settings(server, operator=request.settings, connection=request.connection_settings)
    inspection = replace(request, settings=plan_inspection(server, access, request.settings))
    line_format: LineFormat | None = None
    mapping: tuple[MappedColumn, ...] = ()
    if request.keeps_bad_rows:
        check_target(target)
        source, line_format = read_line_format(client, access, files, inspection, target)
        line_format = line_format.held_to(_of_sample(target, request), kept_form)
    else:
        from_files = without_provenance(target, request.provenance)
        source = read_source(client, access, files, inspection, from_files, cluster.name)
        _check_provenance(target, request, source, cluster)
        request = with_dialect(request, source)
        source = read_nulls(source)
        named = source.in_files if source.has_header else ()
        unused = {column.name for column in named if not is_used(request, from_files, column.name)}
        is_given = bool(request.data_format.structure)
        source = read_text_strictly(source, request.csv, is_given=is_given, unused=unused)
        source = find_open_quotes(source, request.csv, selected=request.select)
        if source.format.is_text:
            source = hold_to_forms(source, _of_sample(target, request), kept_form)
            source = hold_to_forms(source, _guessed(source, target, request), _guessed_form)
        source = replace(source, columns=type_path_columns(source.columns, files, target.columns, folder_types))
        for argument, condition in (("where", request.where), ("mode.deleted", request.mode.deleted)):
            check_condition(client, source, argument, condition)
        mapping = (*_map(client, source, from_files, request), *map_provenance(request.provenance))
        mode_for(request).check_filled(target, request, {column.target for column in mapping})

    source = replace(source, may_list=may_list and access.lists_as_the_worker)

    def plan(source: SourceSpec, sharing: MemorySharing, cluster: ClusterSpec) -> LoadPlan:
        facts = replace(
            _facts(cluster, source, target, request, past.get(source.data_format)),
            sharing=sharing,
            calibration=cluster.calibration,
            one_sender=_find_one_sender(cluster, source, target, is_staged=request.mode.is_staged),
            waits_for_replicas=waits_for_replicas,
            is_remote=any(volume.is_first and volume.is_remote for volume in volumes),
        )
        return plan_load(
            replace(facts, reduction=facts.first_reduction if reduction is None else reduction),
            server=server,
            operator=request.settings,
            connection=request.connection_settings,
        )

    # The sample is read with the settings of the load, so these are planned twice: before the sample, and with it.
    source = source.read_with(**plan(source, MemorySharing(), cluster).sent)
    if line_format is None:  # a sample would stop at the first bad row
        marks = _mark_deletions(request.mode.rule)
        counts_rows = source.rows is None and source.data_format not in past
        source = measure.measure_files(
            client, source, mapping, target, staged=marks, where=request.where, counts_rows=counts_rows
        )
    sharing = read_sharing()  # last of all: a load that starts in the meantime is counted, too
    final = plan(source, sharing, cluster)
    _check_expiry(access, final.prediction)
    # A merge tells the other shards what changes.
    if final.sends_rows or (request.mode.rule and cluster.shard_count > 1):
        check_sent_once(cluster, target)
    check_space(
        volumes,
        measure.estimate_staged_bytes(source) / cluster.shard_count,
        partition_count=source.partition_count,
    )
    held = rewritten = None
    if request.mode.rule:
        sizes = read_sizes(client, target.local, cluster.name)
        touched = measure.find_rewritten(
            client, source, mapping, target.local, cluster, request.mode.rule, where=request.where
        )
        held = TableSize.total(sizes.values())
        if touched is not None:
            rewritten = TableSize.total([one for partition, one in sizes.items() if partition in touched])
    return PreparedLoad(
        cluster=cluster,
        source=source,
        target=target,
        mapping=mapping,
        where=request.where,
        plan=final,
        plan_for=partial(plan, source, sharing),
        sharing=sharing,
        merge=request.mode.rule,
        held=held,
        rewritten=rewritten,
        volumes=volumes,
        line_format=line_format,
    )


def _of_changes(
    request: LoadRequest, past: Mapping[str, PastLoad], files: Sequence[SourceFile]
) -> tuple[LoadRequest, Mapping[str, PastLoad]]:
    """Have the rows of changes that tell of deletions delete their keys; loads of files tell nothing of them."""
    changes = files[0].changes
    if changes is None:
        return request, past
    return replace(request, mode=request.mode.deleting(changes.deletes)), {}


def _mark_deletions(rule: MergeRule | None) -> tuple[MappedColumn, ...]:
    """The column that only the staging table of a merge has."""
    is_deletion = rule.is_deletion if rule else ""
    return (MappedColumn(target=DELETED, expression=is_deletion),) if is_deletion else ()


def _of_sample(target: TargetSpec, request: LoadRequest) -> frozenset[str]:
    """Columns whose types samples have chosen: a text is refused if a sample would lead to another type."""
    if request.create_table is None or request.data_format.structure:
        return frozenset()
    given, renamed = request.create_table.types, find_renamed_in(request)
    names = {c.name for c in target.columns if c.is_insertable and c.name not in given}
    return frozenset(names - request.select.keys()) | {old for old, new in renamed.items() if new in names}


def _guessed(source: SourceSpec, target: TargetSpec, request: LoadRequest) -> frozenset[str]:
    """Columns used only by expressions: the server guessed their types."""
    if request.data_format.structure:
        return frozenset()
    known = {c.name for c in target.columns if c.name not in request.select} | find_renamed_in(request).keys()
    return frozenset(column.name for column in source.columns) - known


def _guessed_form(kind: str) -> str:
    """Have a text refused that is more than the guessed number: 007 may be a code, and 17 digits may be a Decimal."""
    if base_type(kind) == "Float64":
        return ANY_NUMBER
    return kept_form(kind) if integer_range(kind) else ""


def _check_expiry(access: StoreAccess, prediction: Prediction) -> None:
    """:raises SourceError: if the credentials expire while the INSERT is expected to run."""
    left = None if access.expires_at is None else access.expires_at - time.time()
    if left is not None and left < prediction.load_seconds:
        raise SourceError(
            "token-expires-early",
            f"the session token that the servers would read with expires in {format_seconds(max(left, 0))}, and the"
            f" INSERT is expected to take {format_seconds(prediction.load_seconds)}; give the role's sessions a"
            " longer life (DurationSeconds in assume_role_kwargs of the connection), load less at a time"
            " (Chunks(max_bytes=…): each chunk takes a new token), or let the servers read with"
            " credentials=Role(…) or NamedCollection(…)",
        )


def _check_provenance(target: TargetSpec, request: LoadRequest, source: SourceSpec, cluster: ClusterSpec) -> None:
    provenance = request.provenance
    in_files = [column.name for column in source.columns]
    check_filled_once(
        provenance, {"columns": request.columns.only or (), "select": request.select, "the files": in_files}
    )
    check_provenance(target, provenance)
    check_not_hidden(provenance, in_files)
    check_numbered(provenance, source.format)
    check_numbers_rows(provenance, cluster.server_version)


def _map(
    client: ClickHouseClient, source: SourceSpec, target: TargetSpec, request: LoadRequest
) -> tuple[MappedColumn, ...]:
    """Match the columns, and log what users may want to know about them."""
    expressions = (*request.select.values(), request.where, request.mode.deleted)
    mapping = map_columns(
        source.columns,
        target,
        columns=request.columns.only,
        select=request.select,
        select_types=read_select_types(client, source, request.select),
        used=frozenset(chain.from_iterable(map(find_names, expressions))),
        ignores_new=not request.takes_all_columns,
        may_lack=request.may_lack_columns,
    )
    if source.format.is_typed:
        _log_widened(source, mapping, target)
        _log_null_lists(source, mapping)
    _log_unused_folders(source, mapping, request, target)
    return _ignore_deleted_values(mapping, request.mode.rule, target) if request.mode.rule else mapping


def _ignore_deleted_values(
    mapping: tuple[MappedColumn, ...], rule: MergeRule, target: TargetSpec
) -> tuple[MappedColumn, ...]:
    """Have a row that stands for a deletion fill only its key and version: sources of changes send no more."""
    types = {name: plain_type(base_type(kind)) for name, kind in target.column_types.items()}
    return tuple(
        column
        if column.target in rule.columns
        else replace(column, unused_if=rule.is_deletion, type=types[column.target])
        for column in mapping
    )


def _log_null_lists(source: SourceSpec, mapping: Sequence[MappedColumn]) -> None:
    """Log the columns whose lists and maps may be NULL: ClickHouse cannot store that, and no footer tells."""
    used = {column.source for column in mapping}
    names = [c.name for c in source.columns if c.name in used and family(base_type(c.type)) in ("Array", "Map")]
    if names:
        log.info(
            "ClickHouse has no NULL lists and maps: if the files have some in %s, they become empty ones",
            ", ".join(map(show_name, sorted(names))),
        )


def _log_widened(source: SourceSpec, mapping: Sequence[MappedColumn], target: TargetSpec) -> None:
    """Log the columns with wider types in the files than in the table: some values may not fit."""
    types = {column.name: column.type for column in source.in_files}
    told = [
        f"column {column.source} is {base_type(in_file)} in the files and {in_table} in {target.name}"
        f": to widen it, run ALTER TABLE {target.local}"
        f" MODIFY COLUMN {short_identifier(column.target)} {wider} on every node"
        for column in mapping
        if (in_file := types.get(column.source, ""))
        and (wider := widened_type(in_file, in_table := target.column_types[column.target]))
    ]
    if told:
        which = "1 column is" if len(told) == 1 else f"{len(told)} columns are"
        title = f"{which} wider in the files than in {target.name}: a value that does not fit fails the load"
        log_folded(log, title, "\n".join(told))


def _log_unused_folders(
    source: SourceSpec, mapping: Sequence[MappedColumn], request: LoadRequest, target: TargetSpec
) -> None:
    used = {column.source for column in mapping}
    unused = [f"{c.name}=…" for c in source.columns if c.in_path and c.name not in used]
    if unused and not request.select and not request.where:
        log.info("the folders %s match no columns of %s: their values are ignored", ", ".join(unused), target.name)


def read_server_settings(client: ClickHouseClient, cluster: ClusterSpec | None = None) -> dict[str, ServerSetting]:
    """Read all settings of the connected server, as this user sees them.

    :param cluster: the cluster whose nodes are compared with the connected server.
    """
    name, nodes = (cluster.name, len(cluster.nodes)) if cluster else (None, 1)
    rows = client.query(server_queries.render_read_settings(name, nodes=nodes))
    return {
        row["name"]: ServerSetting(
            value=row["value"],
            is_even=bool(row["is_even"]),
            is_readonly=bool(row["readonly"]),
            lowest=row["min"],
            highest=row["max"],
            type=row["type"],
        )
        for row in rows
    }


def plan_inspection(
    server: Mapping[str, ServerSetting], access: StoreAccess, given: Mapping[str, SettingValue]
) -> dict[str, SettingValue]:
    """Choose the settings with which the servers inspect the files: what this user may change, and the given ones.

    :raises PlanError: if this user may not let the servers reach the files with their own role.
    """
    wanted: dict[str, SettingValue] = {**INSPECTION_SETTINGS, **access.inspection_settings}
    rule = s3_allow_server_credentials_in_user_queries
    value, reason = rule(access)
    if value is not None:
        check_profile(Setting(name=rule.__name__, value=value, reason=reason), server)
        wanted[rule.__name__] = value
    changeable = {name: value for name, value in wanted.items() if name in server and server[name].takes(value)}
    return changeable | {**given}


def _facts(
    cluster: ClusterSpec,
    source: SourceSpec,
    target: TargetSpec,
    request: LoadRequest,
    past: PastLoad | None,
) -> LoadFacts:
    distribution = target.distribution
    return LoadFacts(
        node_count=1 if source.changes else cluster.node_count,
        vcpus=cluster.weakest.vcpus,
        memory_bytes=cluster.weakest.memory_bytes,
        ingest_memory_ratio=cluster.ingest_memory_ratio,
        file_count=len(source.files),
        size_bytes=source.size_bytes,
        volume_bytes=int(source.size_bytes * past.volume_ratio) if past else measure.estimate_volume_bytes(source),
        data_format=source.data_format,
        store=source.access.function,
        column_count=len(target.columns),
        is_clustered=cluster.name is not None,
        is_read_by_one=source.changes is not None,
        keeps_rows_where_read=distribution is None or distribution.is_random,
        sharding_key=distribution.sharding_key if distribution else "",
        partition_key=target.partition_key,
        partition_count=source.partition_count,
        partitions_per_file=source.partitions_per_file,
        past=past,
        takes_all_columns=request.takes_all_columns,
        may_lack_columns=request.may_lack_columns,
        reads_other_files=bool(source.path_filter),
        has_path_columns=has_folders((*source.files, *source.delete_files)),
        has_one_field=source.has_one_field,
        is_lake_function=source.reader is not None,
        uses_server_role=source.access.uses_server_role,
        has_null_lists=source.has_null_lists,
        parses_times=not source.format.is_typed and any("Date" in column.type for column in target.columns),
        timeout_seconds=request.timeout_seconds,
    )


def _find_one_sender(cluster: ClusterSpec, source: SourceSpec, target: TargetSpec, *, is_staged: bool) -> str:
    """Why it matters which node sends rows to their shards; '' if it does not."""
    if target.distribution is None or target.distribution.is_random:
        return ""
    if source.changes:
        return "only one server reads the changes"
    if not is_staged:
        return "with mode='direct' they go into the Distributed table of the connected node"
    if not cluster.is_defined_alike:
        return f"the nodes define the cluster {cluster.name!r} with different shards, weights or addresses"
    given = [column.name for column in target.columns if column.is_insertable]
    part = find_server_bound(target.distribution.sharding_key, given)
    return part and f"{part} may have another value on another node (set this to 1 if it has not)"
