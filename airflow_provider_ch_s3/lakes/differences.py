"""Changes between two snapshots of a lake table, told by the plain Parquet files of both."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.files.snapshots import LOAD_ALL, DataFile
from airflow_provider_ch_s3.files.source import (
    MAX_KEY_LIST_BYTES,
    WAS_THERE,
    ChangeData,
    RowsOfSnapshot,
    SourceFile,
)
from airflow_provider_ch_s3.table.provenance import ROWS_SINCE


def compare(
    old: Collection[DataFile],
    new: Collection[DataFile],
    refusal: SnapshotError,
    *,
    old_deletes: Collection[SourceFile] = (),
    new_deletes: Collection[SourceFile] = (),
) -> list[DataFile]:
    """Return the files of two snapshots, whose rows tell what changed between the snapshots.

    A row that only the earlier snapshot has deletes the row's key, unless the later snapshot has a row of the key.

    :param old: files of the earlier snapshot, apart from files with the same rows in both; ``new``: of the later
        snapshot.
    :param old_deletes: delete files of the earlier snapshot; ``new_deletes``: of the later snapshot.
    :raises SnapshotError: the refusal with the reason, if the files are too many to name in a statement.
    """
    files = sorted({*old, *new})
    named = [*files, *old, *new, *old_deletes, *new_deletes]
    if sum(len(file.key.encode()) for file in named) > MAX_KEY_LIST_BYTES:
        raise untold(
            refusal, f"the names of {len(files)} files that differ are too long for a statement: load more often"
        )
    changes = ChangeData(
        deletes=WAS_THERE,
        newest_first=(WAS_THERE,),
        since=ROWS_SINCE if old_deletes or new_deletes else (0, 0),
        compared=(
            RowsOfSnapshot(files=tuple(sorted(old)), deletes=tuple(sorted(old_deletes))),
            RowsOfSnapshot(files=tuple(sorted(new)), deletes=tuple(sorted(new_deletes))),
        ),
    )
    return [
        DataFile(key=file.key, size_bytes=file.size_bytes, rows=file.rows, columns=file.columns, changes=changes)
        for file in files
    ]


def untold(error: SnapshotError, why: str) -> SnapshotError:
    """Add to the error of a snapshot that removes rows why nothing tells the removed rows."""
    cause, remedy, rest = error.sentence.partition(f"; {LOAD_ALL}")
    error.sentence = f"{cause}; {why}{remedy}{rest}"
    return error
