"""What the servers' own functions for lakes read right, where plain Parquet files do not tell the rows.

Measured on 25.8, 26.7 and 26.9, whose answers a test compares with the formats' libraries and specifications.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_ch_s3.errors import SnapshotError
from airflow_provider_ch_s3.files.access import TableFunction
from airflow_provider_ch_s3.files.snapshots import DataFile
from airflow_provider_ch_s3.files.source import ChangeData, LakeReader

Version = tuple[int, int]

ICEBERG: Mapping[str, Version | None] = {
    "position deletes": (26, 7),
    "equality deletes": (26, 7),
    "deletion vectors (format version 3)": None,
    "renamed and re-added columns, and fields of structs": (26, 7),
    "files without field ids, with a mapping of names": (26, 7),
    "names that Avro does not allow": (25, 8),
    "partition values only in the metadata": (26, 9),
    "initial defaults": None,
    "files added twice": None,
}
"""Feature → the first measured version that reads the feature right; None if no measured version does."""

DELTA: Mapping[str, Version | None] = {
    "deletion vectors": (26, 7),
    "mapped columns, also renamed and re-added": (26, 7),
    "mapped fields of structs in lists and maps": None,
    "partition values without folders": (25, 8),
    "partitions by a timestamp": (25, 8),
    "a location in a folder of a partition column": (25, 8),
    "widened types": (25, 8),
    "structs, besides anything that plain Parquet files do not tell": (26, 7),
    "shallow clones": None,
}

CHANGES_SINCE: Version = (26, 7)
"""The first measured version that reads the change data feed of Delta."""

_SPLITS_SINCE: Version = (26, 7)
# A node that reads a part of a file does not leave out the deleted rows of the file (26.7).
_WHOLE_FILES: Mapping[str, str] = {"cluster_table_function_split_granularity": "file"}


@dataclass(frozen=True, kw_only=True)
class Need:
    """Something about a snapshot that plain Parquet files do not tell.

    :param since: the first version of ClickHouse with a function that does.
    :param refusal: the error where the function cannot be used.
    """

    since: Version
    refusal: SnapshotError


def need(features: Mapping[str, Version | None], feature: str, refusal: SnapshotError) -> Need:
    """Look up a feature.

    :raises SnapshotError: the refusal, if no version reads the feature right.
    """
    since = features[feature]
    if since is None:
        raise refusal
    return Need(since=since, refusal=refusal)


def read_through(
    function: TableFunction,
    files: Iterable[DataFile],
    needs: Iterable[Need],
    *,
    location: str,
    settings: Mapping[str, int],
    deleted_rows: int | None = 0,
    metadata: str = "",
    changes: ChangeData | None = None,
) -> Sequence[DataFile]:
    """Have the servers read all files of a snapshot with their own function, if anything needs the function.

    :param settings: name the snapshot.
    :param deleted_rows: rows of the data files that are deleted; None if unknown.
    :param metadata: path of the metadata file below the location.
    :param changes: the function reads change data, not all rows of the snapshot.
    """
    last = max(needs, key=lambda one: one.since, default=None)
    if last is None:
        return list(files)
    reader = LakeReader(
        function=function,
        location=location,
        settings={**settings, **(_WHOLE_FILES if last.since >= _SPLITS_SINCE else {})},
        deleted_rows=deleted_rows,
        metadata=metadata,
        since=last.since,
        refusal=last.refusal,
    )
    return [
        DataFile(
            key=file.key,
            size_bytes=file.size_bytes,
            rows=file.rows,
            columns=dict.fromkeys(file.columns or (), False),
            reader=reader,
            changes=changes,
        )
        for file in files
    ]
