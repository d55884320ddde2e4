"""Find the files that a table does not hold yet, for a watcher; most polls only list, and ask no server.

A poll compares the listing with the ledger only if the listing differs from the last compared listing, or after a
while. So a watcher needs no memory of files: after a restart, the watcher compares once, and goes on.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import TargetChangingError
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT
from airflow_provider_ch_s3.exactly_once.modes.mode import ReadVersions
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.files.addresses import SourcePattern
from airflow_provider_ch_s3.files.globs import WILDCARD
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.arrivals import ReadyFiles
from airflow_provider_ch_s3.load.selection import last_loaded_key
from airflow_provider_ch_s3.load.wiring import find_target
from airflow_provider_ch_s3.request import LoadRequest

# Airflow stores each event as a row, and writes the event into the log of the triggerer.
MAX_NAMED_FILES = 1_000


@dataclass(frozen=True, kw_only=True)
class Position:
    """What a watcher keeps from one poll to the next.

    :param listed: digest of the listing that was compared with the ledger.
    :param after: the listing begins after this key.
    :param until: by the monotonic clock: afterwards, the same listing is compared again.
    """

    listed: str = ""
    after: str = ""
    until: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Watch:
    """A source to be compared with a table.

    :param request: the load whose files are looked for.
    :param again_after: seconds after which files that the table still lacks count as new again.
    """

    request: LoadRequest
    again_after: float
    position: Position = Position()

    def request_for(self, store: ObjectStore) -> LoadRequest:
        """The load from the account of a store."""
        return replace(self.request, pattern=replace(self.request.pattern, account=store.account))

    def __str__(self) -> str:
        return f"{self.request.pattern} for {self.request.table}"


@dataclass(kw_only=True)
class NewFiles:
    """The files that a table lacks, and that no load is about to add.

    :param files: the first of them; ``count`` and ``size_bytes`` are of all.
    """

    count: int = 0
    size_bytes: int = 0
    first_key: str = ""
    last_key: str = ""
    files: list[SourceFile] = field(default_factory=list)

    def add(self, files: Sequence[SourceFile]) -> None:
        """Add some files."""
        keys = [file.key for file in files]
        self.first_key = min([self.first_key, *keys] if self.count else keys, default="")
        self.last_key = max([self.last_key, *keys])
        self.count += len(files)
        self.size_bytes += sum(file.size_bytes for file in files)
        self.files += files[: MAX_NAMED_FILES - len(self.files)]

    def describe(self, watch: Watch) -> dict[str, Any]:
        """Describe the files for an event.

        ``source`` is a list of addresses for an operator: of just these files, or of the whole source if the files
        are too many to name, or if the key of a file has wildcards.
        """
        pattern = watch.request.pattern
        keys = [file.key for file in self.files]
        is_named = len(keys) == self.count and not any(map(WILDCARD.search, keys))
        return {
            "source": [pattern.address(key) for key in (keys if is_named else pattern.globs)],
            "table": watch.request.table,
            "files": self.count,
            "bytes": self.size_bytes,
            "first_key": self.first_key,
            "last_key": self.last_key,
        }


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a poll has found.

    :param position: for the next poll.
    """

    position: Position
    new: NewFiles = field(default_factory=NewFiles)


def has_news(store: ObjectStore, watch: Watch) -> bool:
    """Whether a poll has to compare the listing with the ledger; only lists.

    :raises SourceError: if the store cannot be listed.
    """
    position = watch.position
    if not position.listed or time.monotonic() > position.until:
        return True
    listing = _Listing(store, watch.request_for(store), position.after)
    for _ in listing:
        pass
    return listing.digest != position.listed


def find_new_files(
    client: ClickHouseClient, declaration: ClusterDeclaration, store: ObjectStore, watch: Watch
) -> Found:
    """Compare the listing with the ledger.

    :raises ChS3Error: if the store or a server does not answer, or refuses.
    """
    request = watch.request_for(store)
    table = _Table.read(client, declaration, watch, request.pattern)
    new, listing = NewFiles(), _Listing(store, request, table.last_key)
    for group in batches(listing, FILES_PER_STATEMENT):
        missing = mode_for(request).select(group, table.read_versions, request).files
        new.add([file for file in missing if (request.pattern.path(file.key), file.etag) not in table.underway])
    until = time.monotonic() + watch.again_after
    return Found(new=new, position=Position(listed=listing.digest, after=table.last_key, until=until))


@dataclass(frozen=True, kw_only=True)
class _Table:
    """What the ledger knows of a table; nothing if the table does not exist, or was never loaded.

    :param underway: path and ETag of the files of loads that are planned or running. Empty if only keys after the
        last loaded key are listed: a later file, loaded while the load of these files fails, would hide them.
    :param last_key: the last key of the source in the table, if only later keys are to be listed.
    """

    read_versions: ReadVersions = lambda _: {}
    underway: Set[tuple[str, str]] = frozenset()
    last_key: str = ""

    @classmethod
    def read(
        cls, client: ClickHouseClient, declaration: ClusterDeclaration, watch: Watch, pattern: SourcePattern
    ) -> _Table:
        try:
            target = find_target(client, declaration, LoadIdentity.nobody(watch.request.table))
        except TargetChangingError as error:
            if error.code != "table-missing":
                raise
            return cls()
        history = target.ledger.read_if_there()
        if not history.events:
            return cls()
        if watch.request.mode.list_after_loaded:
            return cls(read_versions=target.holdings.versions, last_key=last_loaded_key(target.holdings, pattern))
        # Nobody may be left to end an old attempt: then the files are new again.
        manifests: Iterable[Mapping[str, str]] = (
            target.ledger.read_manifest(attempt.id)
            for attempt in history.attempts.values()
            if attempt.is_held or (attempt.is_open and attempt.age_seconds < watch.again_after)
        )
        return cls(
            read_versions=target.holdings.versions,
            underway={file for manifest in manifests for file in manifest.items()},
        )


class _Listing:
    """Goes through the ready files of a source."""

    def __init__(self, store: ObjectStore, request: LoadRequest, after: str) -> None:
        self._files = ReadyFiles(store=store, request=request, after=after)
        self._digest = hashlib.blake2b(digest_size=16)

    def __iter__(self) -> Iterator[SourceFile]:
        for file in self._files:
            self._digest.update(f"{file.key}\0{file.etag}\n".encode())
            yield file

    @property
    def digest(self) -> str:
        """Digest of the files passed so far: changes if a file is added, changes, or goes."""
        return self._digest.hexdigest()
