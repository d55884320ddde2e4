"""Which of the listed files a load takes: in ``append``, those that the table does not hold yet."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.load.request import OnChangedFiles, OnLoadedFiles
from airflow_provider_ch_s3.load.site import Site
from airflow_provider_ch_s3.load.story import Story
from airflow_provider_ch_s3.source import SourceFile


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The files to load, and those that are left out because the table holds them, or another version of them.

    :param seen: path → ETags of the versions of the listed files that the table held then.
    """

    files: tuple[SourceFile, ...]
    loaded: tuple[SourceFile, ...] = ()
    changed: tuple[SourceFile, ...] = ()
    seen: Mapping[str, Set[str]] = field(default_factory=dict)

    @property
    def listed(self) -> tuple[SourceFile, ...]:
        return (*self.files, *self.loaded, *self.changed)

    @property
    def skipped_count(self) -> int:
        return len(self.loaded) + len(self.changed)


def choose_files(
    listed: tuple[SourceFile, ...],
    loaded: Mapping[str, Set[str]],
    bucket: str,
    *,
    on_loaded: OnLoadedFiles,
    on_changed: OnChangedFiles,
) -> Choice:
    """Compare the listing with what the ledger says the table holds.

    :param loaded: path → ETags of the versions that the table holds.
    :raises SourceError: if a file changed since it was loaded, and ``on_changed`` says to fail.
    """
    versions = {file: loaded.get(file.path(bucket), frozenset()) for file in listed}
    old = tuple(f for f in listed if f.etag in versions[f])
    changed = tuple(f for f in listed if versions[f] and f.etag not in versions[f])
    if changed and on_changed is OnChangedFiles.FAIL:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise SourceError(
            f"{changed[0].key!r}{more} changed since it was loaded, and the table holds the rows of the old version;"
            " use load_mode='replace_partitions' or 'replace_where' to correct them, on_changed_files='load' to add"
            " the new version to the old one, or on_changed_files='skip' to leave it out"
        )
    left_out = set(old if on_loaded is OnLoadedFiles.SKIP else ()) | set(
        changed if on_changed is OnChangedFiles.SKIP else ()
    )
    return Choice(
        files=tuple(f for f in listed if f not in left_out),
        loaded=tuple(f for f in old if f in left_out),
        changed=tuple(f for f in changed if f in left_out),
        seen=loaded,
    )


def read_loaded(site: Site, story: Story, paths: Set[str], *, after: int = 0) -> dict[str, set[str]]:
    """Versions of the paths that the table holds.

    :param after: only what was committed in later epochs.
    """
    holders = [a.id for a in story.holders(site.target.uuids) if max(event.epoch for event in a.events) > after]
    return site.ledger.read_loaded(paths, holders) if holders else {}
