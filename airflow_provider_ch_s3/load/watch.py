"""Find the files that a table does not hold yet, for a watcher; most polls only list, and ask no server.

A poll compares the listing with the ledger only if the listing differs from the last compared listing, or after a
while. So a watcher needs no memory of files: after a restart, the watcher compares once, and goes on.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from airflow_provider_ch_s3.cluster.client import ClickHouseClient
from airflow_provider_ch_s3.cluster.spec import ClusterDeclaration
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.common.work import batches
from airflow_provider_ch_s3.errors import TargetChangingError
from airflow_provider_ch_s3.exactly_once.history import Attempt
from airflow_provider_ch_s3.exactly_once.holdings import Holdings
from airflow_provider_ch_s3.exactly_once.ledger import FILES_PER_STATEMENT
from airflow_provider_ch_s3.exactly_once.modes.mode import ReadVersions
from airflow_provider_ch_s3.exactly_once.modes.registry import mode_for
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.globs import WILDCARD
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.load.arrivals import ReadyFiles, check_key
from airflow_provider_ch_s3.load.selection import last_loaded_key
from airflow_provider_ch_s3.load.wiring import find_target
from airflow_provider_ch_s3.request import LoadRequest

# Airflow stores each event as a row, and writes the event into the log of the triggerer.
MAX_NAMED_FILES = 1_000


@dataclass(frozen=True, kw_only=True)
class Position:
    """What a watcher keeps from one poll to the next.

    :param listed: digest of the listing that was compared with the ledger; of a lake table, address of the metadata.
    :param after: the listing begins after this key.
    :param until: by the monotonic clock: afterwards, the same listing is compared again.
    """

    listed: str = ""
    after: str = ""
    until: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the table is to be compared, even if nothing was added to the source."""
        return not self.listed or time.monotonic() > self.until


New = TypeVar("New")


@dataclass(frozen=True, kw_only=True)
class PollResult(Generic[New]):
    """What a poll has found.

    :param position: for the next poll.
    :param new: what the table lacks, with ``describe``, and as a text for the log; None or empty, if nothing.
    :param lacking: of the named keys, the keys of files that the table does not hold, whether new or not.
    """

    position: Position
    new: New | None = None
    lacking: Set[str] = frozenset()


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchedSource(ABC):
    """What a watcher compares with a table.

    :param again_after: seconds after which what the table still lacks counts as new again.
    """

    again_after: float
    position: Position = Position()

    @abstractmethod
    def poll(self, client: ClickHouseClient, declaration: ClusterDeclaration, store: Any) -> PollResult[Any]:
        """Look for what the table lacks; ask no server, if nothing was added to the source.

        :raises ChS3Error: if the store or a server does not answer, or refuses.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchedFiles(WatchedSource):
    """A source to be compared with a table.

    :param request: the load whose files are looked for.
    :param named: keys of the source; only these objects are looked at, and the source is not listed.
    :param told: path and ETag of files that are not new, because an event has told of them.
    """

    request: LoadRequest
    named: Set[str] = frozenset()
    told: Set[tuple[str, str]] = frozenset()

    def poll(
        self, client: ClickHouseClient, declaration: ClusterDeclaration, store: ObjectStore
    ) -> PollResult[NewFiles]:
        """List the source, and compare the listing with the ledger, if the listing has changed."""
        if self.named:
            return _find_named_files(client, declaration, store, self)
        if not has_news(store, self):
            return PollResult(position=self.position)
        return find_new_files(client, declaration, store, self)

    def request_for(self, store: ObjectStore) -> LoadRequest:
        """The load from the account of a store."""
        return replace(self.request, source=replace(self.request.source, account=store.account))

    def __str__(self) -> str:
        return f"{self.request.source} for {self.request.table}"


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

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        return count_of(self.count, "new file")

    def describe(self, watch: WatchedFiles) -> dict[str, Any]:
        """Describe the files for an event.

        ``source`` is a list of addresses for an operator: of just these files, or of the whole source if the files
        are too many to name, or if the key of a file has wildcards.
        """
        source = watch.request.source
        keys = [file.key for file in self.files]
        is_named = len(keys) == self.count and not any(map(WILDCARD.search, keys))
        return {
            "source": [source.address(key) for key in (keys if is_named else source.globs)],
            "table": watch.request.table,
            "files": self.count,
            "bytes": self.size_bytes,
            "first_key": self.first_key,
            "last_key": self.last_key,
        }


def has_news(store: ObjectStore, watch: WatchedFiles) -> bool:
    """Whether a poll has to compare the listing with the ledger; only lists.

    :raises SourceError: if the store cannot be listed.
    """
    position = watch.position
    if position.is_over:
        return True
    listing = _Listing(store, watch.request_for(store), position.after)
    for _ in listing:
        pass
    return listing.digest != position.listed


def find_new_files(
    client: ClickHouseClient, declaration: ClusterDeclaration, store: ObjectStore, watch: WatchedFiles
) -> PollResult[NewFiles]:
    """Compare the listing with the ledger.

    :raises ChS3Error: if the store or a server does not answer, or refuses.
    """
    request = watch.request_for(store)
    table = _Table.read(client, declaration, watch, request.source)
    new, listing = NewFiles(), _Listing(store, request, table.last_key)
    for group in batches(listing, FILES_PER_STATEMENT):
        missing = mode_for(request).select(group, table.read_versions, request).files
        new.add([file for file in missing if not table.is_underway(file)])
    until = time.monotonic() + watch.again_after
    return PollResult(new=new, position=Position(listed=listing.digest, after=table.last_key, until=until))


def _find_named_files(
    client: ClickHouseClient, declaration: ClusterDeclaration, store: ObjectStore, watch: WatchedFiles
) -> PollResult[NewFiles]:
    """Compare the named objects with the ledger; ask no server if there are none."""
    request = watch.request_for(store)
    source = replace(request.source, globs=tuple(sorted(watch.named)))
    ages = {file: age for file, age in store.list_ages(source) if file.key in watch.named and file.size_bytes}
    if not ages:
        return PollResult(position=watch.position)
    for file in ages:
        check_key(file.key, source)
    table = _Table.read(client, declaration, watch, request.source)
    lacking = mode_for(request).select(sorted(ages), table.read_versions, request).files
    new = NewFiles()
    new.add([file for file in lacking if ages[file] >= request.arrivals.min_age and not table.is_underway(file)])
    return PollResult(position=watch.position, new=new, lacking={file.key for file in lacking})


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the ledger knows of a table.

    :param underway: the attempts of loads that are planned, running or held.
    """

    holdings: Holdings
    underway: Sequence[Attempt]

    @classmethod
    def read(
        cls, client: ClickHouseClient, declaration: ClusterDeclaration, table: str, again_after: float
    ) -> Known | None:
        """Read the ledger; None if the table does not exist, or was never loaded.

        :param again_after: nobody may be left to end an older attempt, so the attempt is not underway.
        :raises ChS3Error: if a server does not answer, or refuses.
        """
        try:
            target = find_target(client, declaration, LoadIdentity.nobody(table))
        except TargetChangingError as error:
            if error.code != "table-missing":
                raise
            return None
        history = target.ledger.read_if_there()
        if not history.events:
            return None
        underway = [
            attempt
            for attempt in history.attempts.values()
            if attempt.is_held or (attempt.is_open and attempt.age_seconds < again_after)
        ]
        return cls(holdings=target.holdings, underway=underway)


@dataclass(frozen=True, kw_only=True)
class _Table:
    """What the ledger knows of a table; nothing if the table does not exist, or was never loaded.

    :param underway: path and ETag of the files of loads that are planned, running or about to be. Empty if only
        keys after the last loaded key are listed: a later file, loaded while such a load fails, would hide the files.
    :param last_key: the last key of the source in the table, if only later keys are to be listed.
    """

    source: Source
    read_versions: ReadVersions = lambda _: {}
    underway: Set[tuple[str, str]] = frozenset()
    last_key: str = ""

    @classmethod
    def read(
        cls, client: ClickHouseClient, declaration: ClusterDeclaration, watch: WatchedFiles, source: Source
    ) -> _Table:
        sorts_by_time = watch.request.mode.list_after_loaded
        told = frozenset[tuple[str, str]]() if sorts_by_time and not watch.named else watch.told
        known = Known.read(client, declaration, watch.request.table, watch.again_after)
        if known is None:
            return cls(source=source, underway=told)
        found = cls(source=source, read_versions=known.holdings.versions, underway=told)
        if sorts_by_time:
            return replace(found, last_key=last_loaded_key(known.holdings, source))
        manifests = (known.holdings.ledger.read_manifest(attempt.id) for attempt in known.underway)
        files = {file for manifest in manifests for file in manifest.items()}
        return replace(found, underway=found.underway | files)

    def is_underway(self, file: SourceFile) -> bool:
        """Whether a load has planned this version of a file, or an event has just told of the file."""
        return (self.source.path(file.key), file.etag) in self.underway


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
