"""Select the files to load from the listing: in ``append``, those that the table does not hold yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from airflow_provider_ch_s3.batches import batches
from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.exactly_once.history import AttemptId
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT
from airflow_provider_ch_s3.load.arrivals import Listing
from airflow_provider_ch_s3.load.context import LoadContext
from airflow_provider_ch_s3.request import LoadMode, LoadRequest, OnChangedFiles, OnLoadedFiles
from airflow_provider_ch_s3.source import SourceFile
from airflow_provider_ch_s3.units import count_of


@dataclass(frozen=True, kw_only=True)
class FileSelection:
    """The files to load, and those left out because the table holds them or another version of them.

    :param young_count: files left out because they are too young.
    """

    files: tuple[SourceFile, ...]
    loaded: tuple[SourceFile, ...] = ()
    changed: tuple[SourceFile, ...] = ()
    young_count: int = 0

    @property
    def listed(self) -> Listing:
        """The listing from which these were selected."""
        files = tuple(sorted((*self.files, *self.loaded, *self.changed)))
        return Listing(files=files, young_count=self.young_count)

    @property
    def skipped_count(self) -> int:
        return len(self.loaded) + len(self.changed)

    @property
    def left_out_count(self) -> int:
        return self.skipped_count + self.young_count

    @property
    def left_out(self) -> dict[str, int]:
        """The numbers of files left out, under the names of the report."""
        return {"files_skipped": self.skipped_count, "files_too_young": self.young_count}

    def describe_skipped(self) -> str:
        """Describe what is left out, for the log; '' if nothing is."""
        groups = (
            (self.loaded, "that the table already holds"),
            (self.changed, "of which the table holds another version"),
        )
        parts = [
            f"{count_of(len(files), 'file')} {why} ({files[0].key!r}{', …' if files[1:] else ''})"
            for files, why in groups
            if files
        ]
        return f"skipping {' and '.join(parts)}" if parts else ""


def select_files(
    listed: Sequence[SourceFile],
    loaded: Mapping[str, Set[str]],
    bucket: str,
    *,
    on_loaded: OnLoadedFiles,
    on_changed: OnChangedFiles,
) -> FileSelection:
    """Compare the listing with what the table holds according to the ledger.

    :param loaded: path → ETags of the versions that the table holds.
    :raises SourceError: if a file has changed since it was loaded, and ``on_changed`` is ``FAIL``.
    """
    files, old, changed = [], [], []
    for file in listed:
        versions = loaded.get(file.path(bucket))
        if versions and file.etag not in versions and on_changed is not OnChangedFiles.LOAD:
            changed.append(file)
        elif versions and file.etag in versions and on_loaded is OnLoadedFiles.SKIP:
            old.append(file)
        else:
            files.append(file)
    if changed and on_changed is OnChangedFiles.FAIL:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise SourceError(
            f"{changed[0].key!r}{more} changed since it was loaded, and the table holds the rows of the old version;"
            " use load_mode='replace_partitions' or 'replace_where' to replace those rows, on_changed_files='load' to"
            " add those of the new version to them, or on_changed_files='skip' to leave the new version out"
        )
    return FileSelection(files=tuple(files), loaded=tuple(old), changed=tuple(changed))


def select_from(
    listed: tuple[SourceFile, ...], read: Callable[[Set[str]], Mapping[str, Set[str]]], request: LoadRequest
) -> FileSelection:
    """Select files in groups: the ledger's rows for a million files would be too much to read at once.

    :param read: takes paths; returns, for those that the table holds, the ETags of the versions it holds.
    :raises SourceError: as :func:`select_files`.
    """
    bucket = request.pattern.bucket
    selections = [
        select_files(
            group,
            read({file.path(bucket) for file in group}),
            bucket,
            on_loaded=request.on_loaded_files,
            on_changed=request.on_changed_files,
        )
        for group in batches(listed, FILES_PER_STATEMENT)
    ]
    return FileSelection(
        files=tuple(file for selection in selections for file in selection.files),
        loaded=tuple(file for selection in selections for file in selection.loaded),
        changed=tuple(file for selection in selections for file in selection.changed),
    )


def select_new(context: LoadContext, listing: Listing, request: LoadRequest) -> FileSelection:
    """Select the files that the table does not hold yet; in the replacing modes, all files.

    :raises SourceError: as :func:`select_files`.
    """
    if request.load_mode is not LoadMode.APPEND:
        return FileSelection(files=listing.files)
    selection = select_from(listing.files, context.holdings.versions, request)
    return replace(selection, young_count=listing.young_count)


def is_loaded_meanwhile(context: LoadContext, attempt: AttemptId, request: LoadRequest) -> bool:
    """Whether other loads have committed some of the attempt's files since it was planned."""
    paths = context.ledger.read_manifest(attempt).keys() if request.skips_loaded else frozenset()
    return bool(context.holdings.versions(paths, after=attempt.number))
