"""Choose the snapshots for a load to add, by the snapshots that the ClickHouse table holds."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import asdict

from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.files.snapshots import LOAD_ALL, HeldSnapshots, Snapshot, SnapshotRange, last_loaded
from airflow_provider_ch_s3.lakes.table import LakeTable

log = get_log(__name__)


def choose_range(
    table: LakeTable, wanted: Snapshot, held: Sequence[str], *, record_key: str, is_latest: bool
) -> SnapshotRange:
    """Choose where the load begins: after the newest fully loaded snapshot before the wanted snapshot.

    A first load of the whole table that ended between two chunks is completed first: a compaction in the meantime
    would have put the same rows into different files.

    :param held: the ledger's records, in the order of their commits. For an expired snapshot, only this order tells
        whether the snapshot is an early one, or was loaded before the table was rolled back.
    :param is_latest: no snapshot of the table comes after the wanted snapshot.
    :raises SnapshotError: if the table holds rows of snapshots that are not on the way to the wanted snapshot.
    """
    uuid, line = table.uuid, list(table.line(wanted.id))
    known = HeldSnapshots.parse(held, uuid)
    if known.others:
        raise SnapshotError(
            "lake-table-replaced",
            f"the lake table {uuid} is another one than {', '.join(sorted(known.others))}, which was loaded from"
            f" the same location before and whose rows the ClickHouse table holds; {LOAD_ALL}",
        )
    if known.mixed:
        raise SnapshotError(
            "snapshot-unrelated",
            f"rows of snapshot {_names(known.mixed)} have replaced some of the ClickHouse table's"
            " (mode='replace_where' or 'replace_partitions'), so that it is unknown to which snapshots its"
            f" other rows belong; {LOAD_ALL}, or replace what is missing in the same way",
        )
    chosen, after = wanted, next((one for one in line if one in known.whole), "")
    ahead = [one for one in known.since(after) if one not in line]
    if elsewhere := {one for one in ahead if is_latest or wanted.id not in table.line(one)}:
        raise _is_elsewhere(wanted, elsewhere)
    if known.whole.intersection(ahead):
        after = wanted.id  # earlier than what is loaded
    elif not after and known.partly:
        begun = next(one for one in (*line, *ahead) if one in known.partly)
        if begun != wanted.id:
            log.info("snapshot %s is loaded in part: completing it, the next load adds what came after it", begun)
            chosen = table.find(int(begun))
    return SnapshotRange(
        record_key=record_key,
        table_uuid=uuid,
        after=after,
        # A partly loaded snapshot counts until a later snapshot is whole; loads may come in another order.
        skips_held=not table.repeats_rows or bool(known.partly.difference(table.line(after) if after else ())),
        **asdict(chosen),
    )


def has_unloaded_rows(table: LakeTable, newest: Snapshot, held: Sequence[str]) -> bool:
    """Whether the newest snapshot may have other rows than the snapshot loaded last: not after compactions alone.

    :param held: as for :func:`choose_range`.
    """
    uuid, last = last_loaded(held)
    for one in table.line(newest.id):
        if one == last:
            return table.uuid != uuid
        if table.changes_rows(one):
            return True
    return False  # nobody has added rows yet


def _names(snapshots: Set[str]) -> str:
    return ", ".join(sorted(snapshots, key=int))


def _is_elsewhere(wanted: Snapshot, held: Set[str]) -> SnapshotError:
    return SnapshotError(
        "snapshot-unrelated",
        f"the ClickHouse table holds the rows of snapshot {_names(held)}, which is not known to come before snapshot"
        f" {wanted.id}: it has expired (or its log was cleaned up), the table was rolled back, or it is of a branch;"
        f" {LOAD_ALL}, and keep snapshots for longer than the time between two loads",
    )
