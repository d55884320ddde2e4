"""Refuse loads with wrong results, or without the rights for them, before the target changes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby

from airflow_provider_ch_s3.bad_rows.lines import check_target
from airflow_provider_ch_s3.cluster.spec import ClusterSpec
from airflow_provider_ch_s3.common.text import count_of, format_bytes, format_count, show_version
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import (
    ChS3Error,
    ConfigError,
    LoadError,
    SnapshotError,
    SourceError,
    TargetError,
    UnknownStateError,
)
from airflow_provider_ch_s3.exactly_once.history import EventKind, History
from airflow_provider_ch_s3.exactly_once.holdings import Replaced
from airflow_provider_ch_s3.exactly_once.ledger import NO_UUID
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.exactly_once.owner import BROKEN
from airflow_provider_ch_s3.exactly_once.target import Target
from airflow_provider_ch_s3.exactly_once.views import View
from airflow_provider_ch_s3.files.snapshots import LOAD_ALL, SnapshotRange, count_rows
from airflow_provider_ch_s3.files.source import SourceFile, SourceSpec, list_keys
from airflow_provider_ch_s3.files.stores import ObjectStore, SnapshotStore
from airflow_provider_ch_s3.introspection.explain import REMOVED_REMEDY, is_removed
from airflow_provider_ch_s3.introspection.table import Volume
from airflow_provider_ch_s3.load.arrivals import describe_empty
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.sql import staging_queries
from airflow_provider_ch_s3.table.target import TargetSpec, is_merge_tree

# "Bad get: has CustomType, requested String" before: ClickHouse issue 63019
ALTERS_OWN_DISK_SINCE = (26, 7)
log = get_log(__name__)


def check_mode(target: TargetSpec, request: LoadRequest) -> None:
    """Check that the table can be loaded in this mode, through a staging table.

    :raises TargetError: if the table cannot be loaded in this mode.
    :raises ConfigError: if the mode and another argument contradict each other.
    """
    mode = mode_for(request)
    if not is_merge_tree(target.engine):
        raise TargetError(
            "engine-not-loadable",
            f"{target.local} is a {target.engine} table, which has no partitions to commit; use a MergeTree table, or"
            " mode='direct', which loads rows at least once",
        )
    if target.has_unique_key:
        raise TargetError(
            "engine-not-loadable",
            f"{target.local} has a UNIQUE KEY, and ClickHouse moves no partitions into such a table, so that staged"
            " rows could not be committed; use a table without it (mode='merge' keeps one row of a key), or"
            " mode='direct', which loads rows at least once",
        )
    if target.is_shared:
        log.warning(
            "%s is a %s table of ClickHouse Cloud, where this package has never been run: `ch-s3 docs topologies`"
            " says what was tested instead, and how to test your own service",
            target.local,
            target.engine,
        )
    mode.check_target(target, request)
    if request.keeps_bad_rows:
        check_target(target)
    is_fed = mode.effect.replaced is Replaced.NOTHING
    if target.views and (not request.mode.replays_views or not is_fed):
        names = ", ".join(map(str, target.views))
        remedy = (
            "use Append(views='replay') to feed them from the staged rows, or mode='direct'"
            if is_fed
            else "their old rows cannot be identified; detach the views, load, and fill them again"
        )
        raise TargetError(
            "view-not-fed",
            f"{target.name} feeds {names}, which staged commits do not trigger: {remedy}; see `ch-s3 docs modes`",
        )


def check_disks(target: Target, views: Sequence[View]) -> None:
    """Check that a commit can change settings of the staging tables: staged rows are on the disk of the target.

    :raises TargetError: if a table defines a disk, and the servers cannot change settings of tables with own disks.
    """
    version = target.cluster.server_version
    tables = {target.spec.local: target.spec.has_own_disk, **{view.table: view.has_own_disk for view in views}}
    own = next((table for table, has_own_disk in tables.items() if has_own_disk), None)
    if own and version < ALTERS_OWN_DISK_SINCE:
        raise TargetError(
            "server-too-old",
            f"{own} defines a disk of its own (disk = disk(…)), and ClickHouse {show_version(version)} cannot change"
            " a setting of a table on such a disk, as a commit has to; define the disk in the configuration of the"
            " servers and create the table with storage_policy, use ClickHouse"
            f" {show_version(ALTERS_OWN_DISK_SINCE)}, or mode='direct', which loads rows at least once",
        )


def check_named(store: ObjectStore, request: LoadRequest, files: Sequence[SourceFile]) -> None:
    """Check that a statement can name the data files of a lake table: the folder has files with other rows, too.

    :raises ConfigError: if the files are too many.
    """
    if not files or files[0].reader:
        return
    if isinstance(store, SnapshotStore) and not list_keys(files, request.source):
        raise ConfigError(
            "files-too-many",
            f"the snapshot has {format_count(len(files))} data files, which are too many to name in one INSERT, as"
            " this load would have to; compact the lake table into fewer files, or load them with"
            " mode='append' into a new table, and exchange the tables",
        )


def check_counted(source: SourceSpec, snapshots: SnapshotRange | None) -> None:
    """Check that the footers of a lake table's data files count as many rows as the table's metadata.

    Warn if neither tells the number of rows.

    :raises SourceError: if the numbers differ.
    """
    if not snapshots:
        return
    counted = count_rows(source.files)
    if counted is None and source.rows is None and not snapshots.takes_changes:
        log.warning(
            "nothing tells how many rows snapshot %s has, because of equality deletes; only the rows that the servers"
            " read, write and stage are compared",
            snapshots.id,
        )
    if counted is not None and source.rows is not None and source.rows != counted:
        raise SourceError(
            "lake-counts-differ",
            f"the metadata of the lake table count {count_of(counted, 'row')} in"
            f" {count_of(len(source.files), 'data file')}, and the footers of the files that are there"
            f" {format_count(source.rows)}; {_describe_gone(snapshots)}",
        )


def name_gone(error: ChS3Error, snapshots: SnapshotRange | None) -> None:
    """Add the reason and the remedy to a server's error about a missing data file of a lake table."""
    if snapshots and is_removed(error.sentence):
        error.sentence = f"{error.sentence.removesuffix(REMOVED_REMEDY)}; {_describe_gone(snapshots)}"
        error.is_final = bool(snapshots.after)


def _describe_gone(snapshots: SnapshotRange) -> str:
    if snapshots.takes_changes:
        return (
            f"change data or removed files after snapshot {snapshots.after} were cleaned up (VACUUM, expired"
            f" snapshots); keep both for longer than the time between two loads, and {LOAD_ALL}"
        )
    if snapshots.after:
        return (
            f"data files that were added after snapshot {snapshots.after} were removed or replaced: the lake table"
            " was probably compacted and then cleaned up (VACUUM, expired snapshots), and each later load that adds"
            f" to snapshot {snapshots.after} needs them, too; {LOAD_ALL}"
        )
    return (
        f"data files of snapshot {snapshots.id} were removed or replaced: if it has expired, load a newer one with"
        " mode='replace_table', otherwise repair the lake table"
    )


def check_not_emptied(target: Target, request: LoadRequest) -> None:
    """Check that rows deleted from a lake table do not stay because no new rows replace them.

    :raises SnapshotError: if the ClickHouse table has rows, and an empty snapshot was to replace them.
    """
    if not request.snapshot or mode_for(request).effect.replaced is not Replaced.TABLE:
        return
    if target.client.query(staging_queries.render_read_partitions(target.ledger.target, target.cluster.name)):
        raise SnapshotError("no-file-matches", f"{describe_empty(request)}; {request.table} still has rows")


def check_unbroken(target: Target, request: LoadRequest, history: History, files: Sequence[SourceFile]) -> None:
    """Check that no unfinished commit, broken off for good, has left some of these files' rows in the table.

    :raises UnknownStateError: if rows were left, and this load would add them again.
    """
    if not request.mode.skips_loaded:
        return
    uuids = set(target.spec.uuids)
    paths = {request.source.path(file.key) for file in files}
    for name, known in [(target.ledger.target, history), *target.ledger.read_earlier()]:
        for attempt in known.attempts.values():
            is_half_done = attempt.abandoned.is_broken or attempt.state is EventKind.COMMITTING
            if not (is_half_done and uuids & set(attempt.committing_uuids)):
                continue
            if paths & target.ledger.of(name).read_manifest(attempt.id).keys():
                raise UnknownStateError("commit-unfinished", BROKEN.format(query_id=attempt.id.query_id, target=name))


def check_known(target: Target, request: LoadRequest, *, has_ledger: bool = True) -> None:
    """Check that loads have filled this table, if loads have filled a table of this name, or the mode needs it.

    Of rows of no load, modes that replace some rows only warn.

    :param has_ledger: all nodes have the ledger, or none.
    :raises TargetError: if the table has rows from unknown files, for example after a restore or a copy, or rows of
        no load in the ledger.
    """
    ledger, uuids = target.ledger, target.spec.uuids
    replaced = mode_for(request).effect.replaced
    if replaced is Replaced.TABLE or (has_ledger and ledger.names):
        return
    earlier = ledger.read_earlier_uuids() if has_ledger else []
    if earlier and (NO_UUID in uuids or set(earlier) & set(uuids)):
        return
    if replaced is Replaced.NOTHING and not (earlier or request.mode.refuses_unknown_rows):
        return
    partitions = target.client.query(staging_queries.render_read_partitions(ledger.target, target.cluster.name))
    # The names after the rows: another load may have just filled an empty table, and it writes the name first.
    if not partitions or (has_ledger and ledger.read().names):
        return
    if earlier:
        raise TargetError(
            "table-replaced",
            f"{ledger.target} is not the table that was loaded under this name before (its UUID is another one, as"
            " after RESTORE, a copy, or an exchange with a table of others), and it holds rows: decide whether these"
            f" are the rows that earlier loads wrote: `ch-s3 loads adopt {ledger.target}` records that the table"
            f" holds them, `ch-s3 loads adopt {ledger.target} --anew` that it holds no file yet; or replace its rows"
            " with mode='replace_table'",
        )
    rows = count_of(sum(target.partition_rows(ledger.target).values()), "row")
    if replaced is not Replaced.NOTHING:
        log.warning(
            "%s holds %s, and the ledger %s has no load into it: a later load in append would add the rows of their"
            " files again, unless mode=%r replaces them all",
            ledger.target,
            rows,
            ledger.name,
            request.mode.name,
        )
        return
    addresses = request.source.addresses
    source = shlex.quote(addresses[0]) if len(addresses) == 1 else "…"
    raise TargetError(
        "rows-unknown",
        f"{ledger.target} holds {rows}, and the ledger {ledger.name} has no load into it: an INSERT of yours may have"
        f" loaded the same files. `ch-s3 loads adopt {ledger.target} --source {source}` records which files the"
        " rows are of; Append(on_unknown_rows='keep') keeps the rows, and adds those of all files; or empty the table"
        " (TRUNCATE)",
    )


def check_known_before(target: Target, request: LoadRequest) -> None:
    """Check, as :func:`check_known` does, before a load has created the ledger.

    If only some nodes have the ledger, nothing is checked: the ledger cannot be read.
    """
    if not request.mode.is_staged:
        return
    nodes = set(target.cluster.hosts)
    found = {row["node"] for row in target.ledger.check()}
    if nodes <= found or not found:
        check_known(target, request, has_ledger=bool(found))


def check_sent_once(cluster: ClusterSpec, target: TargetSpec) -> None:
    """Check that a row sent to a shard is written there once.

    :raises ConfigError: if each replica of a shard would write the row, and then replicate the row.
    """
    copies = cluster.copies_per_sent_row
    if target.is_replicated and copies > 1:
        raise ConfigError(
            "internal-replication-off",
            f"the cluster {cluster.name!r} has internal_replication=false: a row that is sent to a shard is written"
            f" to each of its {copies} replicas, and {target.local} is a {target.engine} table, so each row would be"
            f" there {copies} times; set <internal_replication>true</internal_replication> for its shards in"
            " remote_servers (for the cluster of a Replicated database: use one of remote_servers instead), or, if"
            " any row may be on any shard, give the Distributed table the sharding key rand()",
        )


def check_space(volumes: Sequence[Volume], staged_bytes: float, *, partition_count: float) -> None:
    """Check that each node has room for a share of the staged rows, and for the merges of a partition.

    :param volumes: all volumes of each node together.
    :param staged_bytes: expected on each node.
    :raises LoadError: if a node has too little room; names the node's volumes.
    """
    merged_bytes = staged_bytes / max(1.0, partition_count)
    for (node, policy), found in groupby(volumes, key=lambda volume: (volume.node, volume.policy)):
        of_node = list(found)
        if any(volume.is_remote for volume in of_node):
            continue  # a store has room
        free_bytes = sum(volume.free_bytes for volume in of_node)
        if free_bytes < staged_bytes + merged_bytes:
            names = ", ".join(f"{volume.name!r} ({format_bytes(volume.free_bytes)} free)" for volume in of_node)
            raise LoadError(
                "disk-too-full",
                f"{node} has too little room for this load: staging is expected to take {format_bytes(staged_bytes)}"
                f" there, and merges up to {format_bytes(merged_bytes)} more, in the volumes {names} of the storage"
                f" policy {policy!r}; free some space, or load fewer files",
            )
