"""Choose which snapshots a load adds, by the ones that the ClickHouse table holds."""

from __future__ import annotations

import logging
from collections.abc import Set

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.files.snapshots import HeldSnapshots, SnapshotRange
from airflow_provider_ch_s3.lakes.table import LakeTable, Snapshot

log = logging.getLogger(__name__)

_REMEDY = "load the whole snapshot once with load_mode='replace_table', after which 'append' goes on from there"


def choose_range(table: LakeTable, wanted: Snapshot, held: Set[str], *, record_key: str) -> SnapshotRange:
    """Choose where the load begins: after the newest snapshot before the wanted one that is loaded as a whole.

    A first load of the whole table that ended between two chunks is completed before anything newer is loaded: a
    compaction in the meantime would have put the same rows into other files.

    :param held: the ledger's records.
    :raises SnapshotError: if the table holds rows of snapshots that are not on the way to the wanted one.
    """
    known, uuid = HeldSnapshots.parse(held), table.uuid
    whole, line = known.whole_of(uuid), list(table.line(wanted.id))
    chosen = wanted
    after = next((one for one in line if one in whole), None)
    if after is None and any(wanted.id in table.line(one) for one in whole):
        after = wanted.id  # earlier than what is loaded
    if after is None and (partly := known.partly_of(uuid)):
        begun = next((one for one in line if one in partly), None)
        if begun is None:
            raise _is_elsewhere(wanted, partly)
        if begun != wanted.id:
            log.info("snapshot %s is loaded in part: completing it, the next load adds what came after it", begun)
            chosen = table.find(int(begun))
    elif after is None and whole:
        raise _is_elsewhere(wanted, whole)
    elif after is None and known.table_uuids:
        raise SnapshotError(
            f"the lake's table {uuid} is another one than {', '.join(sorted(known.table_uuids))}, which was loaded"
            f" from the same location before and whose rows the ClickHouse table holds; {_REMEDY}"
        )
    return SnapshotRange(
        record_key=record_key,
        table_uuid=uuid,
        id=chosen.id,
        after=after or "",
        time=chosen.time,
        operation=chosen.operation,
        schema_id=chosen.schema_id,
    )


def _is_elsewhere(wanted: Snapshot, held: Set[str]) -> SnapshotError:
    names = ", ".join(sorted(held, key=int))
    return SnapshotError(
        f"the ClickHouse table holds the rows of snapshot {names}, which is not known to come before snapshot"
        f" {wanted.id}: it has expired (or its log was cleaned up), the table was rolled back, or it is of a branch;"
        f" {_REMEDY}, and keep snapshots for longer than the time between two loads"
    )
