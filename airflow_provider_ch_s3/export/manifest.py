"""The manifest of an export: the files of the export. A manifest proves that all rows exist and were counted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_ch_s3.common.codec import decode
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.identity import Life, LoadIdentity

MANIFEST = "_manifest.json"
SUCCESS = "_SUCCESS"

Version = tuple[str, str]
"""Key and ETag of an object."""

_PART = re.compile(r"(?:.*/)?part-(?P<query_id>ch-s3-[0-9a-f]{20}-\d+-\d+)\.[^/]+", re.DOTALL)


def part_name(query_id: str, extension: str) -> str:
    """Name of the file that an attempt writes into each folder; the name tells the attempt."""
    return f"part-{query_id}.{extension}"


def query_id_of(key: str) -> str:
    """Id of the query that wrote an object; '' if no export wrote the object."""
    match = _PART.fullmatch(key)
    return match["query_id"] if match else ""


def attempt_of(query_id: str) -> int:
    """Number of an attempt, the end of the query id."""
    return int(query_id.rpartition("-")[2])


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    """A file of an export."""

    key: str
    size_bytes: int
    etag: str
    rows: int


def versions_of(files: Iterable[ExportedFile | SourceFile]) -> frozenset[Version]:
    """The version of each file."""
    return frozenset((one.key, one.etag) for one in files)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A complete set of files.

    :param query_id: the INSERT that wrote the files.
    :param by: the task instance, in Airflow's terms.
    :param life: the task instance's life, from one clear to the next.
    :param columns: name and type of each column.
    :param replaced: versions of files of the previous export, which are not part of this export.
    """

    query_id: str
    by: Mapping[str, Any]
    life: Life
    data_format: str
    columns: Sequence[Mapping[str, str]]
    files: tuple[ExportedFile, ...]
    rows: int
    size_bytes: int
    seconds: float
    replaced: tuple[Version, ...] = ()

    def is_of(self, identity: LoadIdentity, *, is_complete: bool) -> bool:
        """Whether this task instance wrote the manifest, in its present life.

        If ``retries`` was lowered, numbers alone do not tell a retry from a clear. A complete export has nearly
        always been reported to Airflow, so the task was cleared. An incomplete export is for a retry to complete.
        """
        is_own = self.query_id.startswith(identity.generation_prefix) and identity.life.is_that_of(self.life)
        return is_own and not (is_complete and identity.life.may_follow_clear(self.life))

    @property
    def owner(self) -> str:
        """The owner, for messages."""
        return f"{self.by.get('dag')}.{self.by.get('task')} of run {self.by.get('run')} ({self.query_id})"

    @property
    def versions(self) -> frozenset[Version]:
        return versions_of(self.files)

    def lacks(self, objects: Sequence[SourceFile]) -> list[str]:
        """Keys of files that have changed or are missing among the objects."""
        return sorted(key for key, _ in self.versions - versions_of(objects))

    def dump(self) -> bytes:
        """The manifest as JSON."""
        return (json.dumps(asdict(self), indent=1) + "\n").encode()


def parse_manifest(body: bytes, place: str) -> Manifest:
    """Parse a manifest written by any release.

    :param place: address of the manifest, for messages.
    :raises LoadError: if the object is not a manifest.
    """
    try:
        return decode(Manifest, json.loads(body))
    except (ValueError, TypeError, KeyError, LoadError) as error:
        raise LoadError(
            "folder-in-use",
            f"{place} is not the manifest of an export ({error}), so it is unknown which files belong to it; remove"
            " it with its files, or export to another folder",
        ) from error
