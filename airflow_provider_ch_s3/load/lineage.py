"""What a load has read, for lineage: files with their versions, and the columns of the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.ledger import Ledger
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.globs import folder_of
from airflow_provider_ch_s3.load.prepare import PreparedLoad

MAX_FILES = 1_000
"""Above this number, folders are named instead of files: at most as many."""


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """What a load has read.

    :param versions: key of a file → ETag; empty if there are too many files.
    :param folders: folder → number of files, if there are too many files.
    :param columns: column of the table → columns of the files that the value comes from; empty if unknown.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)


def lineage_of(prepared: PreparedLoad) -> Lineage:
    """Tell what a load without a ledger was planned to read."""
    files = prepared.source.files
    if len(files) <= MAX_FILES:
        return Lineage(versions={file.key: file.etag for file in files}, columns=prepared.source_columns)
    folders = Counter(folder_of(file.key) for file in files)
    return Lineage(folders=dict(folders.most_common(MAX_FILES)), columns=prepared.source_columns)


def read_lineage(ledger: Ledger, committed: Sequence[Attempt], source: Source) -> Lineage:
    """Read what the committed attempts of a load have read.

    :raises ServerError: if the ledger cannot be read.
    """
    if not committed:
        return Lineage()
    start, columns = source.path(""), committed[-1].planned.columns
    if sum(attempt.planned.files for attempt in committed) > MAX_FILES:
        folders = ledger.count_by_folder([attempt.id for attempt in committed], limit=MAX_FILES)
        return Lineage(folders={path.removeprefix(start): n for path, n in folders.items()}, columns=columns)
    manifests = [ledger.read_manifest(attempt.id) for attempt in committed]
    versions = {path.removeprefix(start): etag for files in manifests for path, etag in files.items()}
    return Lineage(versions=versions, columns=columns)
