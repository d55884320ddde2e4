"""The chunks of a load: a source of any number of files is loaded piece by piece, each piece exactly once.

A chunk is a stretch of the listing in the order of the keys: the files after a key, up to a later key. So the next
chunk begins at the end of the last committed chunk, whichever process continues, and no process lists from the start.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from airflow_provider_ch_s3.arguments import Chunks
from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.exactly_once.history import Attempt, History
from airflow_provider_ch_s3.files.addresses import Source
from airflow_provider_ch_s3.files.chunk import Chunk
from airflow_provider_ch_s3.files.source import MAX_KEY_LIST_BYTES, SourceFile, list_keys
from airflow_provider_ch_s3.identity import LoadIdentity
from airflow_provider_ch_s3.report import LoadReport, join_reports
from airflow_provider_ch_s3.request import LoadRequest

# The query id of a load, with quotes and separators; each file may be of another load.
LOAD_NAME_BYTES = 60
# The rest of the condition needs room, too.
MAX_REPLACED_BYTES = MAX_KEY_LIST_BYTES * 9 // 10


@dataclass(frozen=True, kw_only=True)
class CommittedChunks:
    """The chunks of a load that are in the table, in their order."""

    attempts: Sequence[Attempt] = ()

    @classmethod
    def read(cls, history: History, identity: LoadIdentity, table_uuids: Collection[str]) -> CommittedChunks:
        """Find the chunks in the ledger.

        :param table_uuids: UUIDs of the table on all nodes; rows committed into a table that has since been dropped
            do not count.
        """
        own = history.of_life(identity.load_id, identity.life)
        return cls(attempts=[one for one in own if set(one.committed_uuids) & set(table_uuids)])

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def is_all(self) -> bool:
        """Whether the last chunk is committed."""
        return self.last is not None and self.last.planned.chunk.is_last

    @property
    def rows(self) -> int:
        """Rows added to the table by the chunks."""
        return sum(sum((one.partitions or {}).values()) for one in self._reports)

    @property
    def report(self) -> LoadReport:
        """The report of all of them together."""
        return join_reports(self._reports)

    def next(self, request: LoadRequest) -> Chunk:
        """Where the next chunk begins; the end is not known yet.

        :raises ConfigError: if the request differs from the request of the earlier chunks.
        """
        if self.last is None:
            return Chunk()
        planned = self.last.planned
        before = planned.chunk
        now_and_then = {
            "source": (str(request.source), planned.source),
            "mode": (request.mode.name, planned.load_mode),
        }
        for name, (now, then) in now_and_then.items():
            if now != then:
                raise ConfigError(
                    "arguments-changed",
                    f"{name} is now {now!r}, and {count_of(len(self.attempts), 'chunk')} of this load went into"
                    f" {request.table} with {then!r}; clear the task to begin a new load, or change {name} back",
                )
        # The settings may be why it stopped, and a failed chunk is staged again.
        if changed := [name for name in changed_arguments(self.last, request) if "settings" not in name]:
            raise ConfigError(
                "arguments-changed",
                f"{' and '.join(changed)} changed since {count_of(len(self.attempts), 'chunk')} of this load went"
                f" into {request.table}; clear the task to begin a new load, or change that back",
            )
        return Chunk(
            number=before.number + 1,
            after=before.last,
            bytes_before=before.bytes_before + before.size_bytes,
            rows_before=sum(one.rows_read for one in self._reports),
            seconds_before=round(sum(one.seconds + one.commit_seconds for one in self._reports), 3),
            bytes_total=before.bytes_total,
            snapshots=before.snapshots,
        )

    @cached_property
    def _reports(self) -> Sequence[LoadReport]:
        return [attempt.report for attempt in self.attempts]

    def is_same(self, other: CommittedChunks) -> bool:
        """Whether both are the same attempts."""
        return [attempt.id for attempt in self.attempts] == [attempt.id for attempt in other.attempts]


@dataclass(frozen=True, kw_only=True)
class ChunkLimits:
    """How much one chunk may hold; without limits all files are one chunk.

    :param has_listed_keys: the query names each file, so the keys of all files have to fit into a statement.
    """

    files: float = math.inf
    size_bytes: float = math.inf
    has_listed_keys: bool = False

    @classmethod
    def of(cls, request: LoadRequest, planned_bytes: int) -> ChunkLimits:
        """Return the limits of a request.

        :param planned_bytes: size of a chunk, unless the request gives a size.
        """
        wanted = request.chunks
        is_whole = not request.mode.is_additive or request.checks.validate_only or request.holds
        if is_whole or not isinstance(wanted, Chunks):
            return cls()
        return cls(
            files=wanted.max_files,
            size_bytes=wanted.max_bytes or planned_bytes,
            has_listed_keys=True,
        )


@dataclass(kw_only=True)
class ChunkFiles:
    """The files of a chunk, while they are selected.

    :param source: selected the files.
    """

    limits: ChunkLimits
    source: Source
    files: list[SourceFile] = field(default_factory=list)
    size_bytes: int = 0
    replaced_bytes: int = 0

    def take(self, files: Sequence[SourceFile], replaced: Set[str] = frozenset()) -> Sequence[SourceFile]:
        """Take as many of these files as fit, from the first on, and return the rest.

        A chunk is full at its limit of files or bytes, or when a statement can name no more files; an empty chunk
        takes the first file, whatever its size.

        :param replaced: keys of files whose older versions the commit replaces, so the commit names them, too.
        """
        room, room_bytes = self.limits.files - len(self.files), self.limits.size_bytes - self.size_bytes
        most_bytes = MAX_REPLACED_BYTES if self.limits.has_listed_keys else math.inf
        count, named_bytes = 0, self.replaced_bytes
        for file in files:
            room_bytes -= file.size_bytes
            size_bytes = self._named_bytes(file) if file.key in replaced else 0
            if count == room or room_bytes < 0 or named_bytes + size_bytes > most_bytes:
                break
            count += 1
            named_bytes += size_bytes
        if self.limits.has_listed_keys and not self._can_list(files[:count]):
            count = bisect_left(range(count), True, key=lambda n: not self._can_list(files[: n + 1]))
        taken = files[: count if self.files else max(1, count)]
        self.files += taken
        self.size_bytes += sum(file.size_bytes for file in taken)
        self.replaced_bytes += sum(self._named_bytes(file) for file in taken if file.key in replaced)
        return files[len(taken) :]

    def _named_bytes(self, file: SourceFile) -> int:
        """How many bytes a statement needs to name a file and the load that the file came from."""
        return len(self.source.path(file.key).encode()) + LOAD_NAME_BYTES

    def _can_list(self, files: Sequence[SourceFile]) -> bool:
        """Whether a statement can name these files, too: the more their keys have in common, the more files fit."""
        return bool(list_keys([*self.files, *files], self.source))


def changed_arguments(attempt: Attempt, request: LoadRequest) -> list[str]:
    """Find the arguments that decide about rows, and have changed since an attempt was planned."""
    planned = attempt.planned.arguments
    return [name for name, value in request.fingerprints.items() if planned.get(name, value) != value]
