"""The folder of an export in the store: the owner, what makes the folder complete, and what does not belong there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_ch_s3.common.text import count_of
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import LoadError, OvertakenError, TargetError
from airflow_provider_ch_s3.export.manifest import (
    MANIFEST,
    SUCCESS,
    Manifest,
    Version,
    attempt_of,
    parse_manifest,
    query_id_of,
    versions_of,
)
from airflow_provider_ch_s3.export.request import Destination
from airflow_provider_ch_s3.files.source import SourceFile
from airflow_provider_ch_s3.files.stores import ExportStore, SmallObject
from airflow_provider_ch_s3.identity import LoadIdentity

log = get_log(__name__)


@dataclass(frozen=True, kw_only=True)
class Published:
    """The objects that make the folder complete, as read.

    :param success: ``_SUCCESS`` holds the query id of the completed manifest.
    """

    manifest: Manifest | None = None
    written: SmallObject | None = None
    success: SmallObject | None = None

    @property
    def is_complete(self) -> bool:
        return (
            self.manifest is not None
            and self.success is not None
            and self.success.body.decode(errors="replace").strip() == self.manifest.query_id
        )


@dataclass(kw_only=True)
class ExportFolder:
    """A folder, as the export of one task instance sees it."""

    store: ExportStore
    destination: Destination
    identity: LoadIdentity

    def read(self) -> Published:
        """Read manifest and ``_SUCCESS``.

        :raises LoadError: if no export wrote the manifest.
        """
        written, success = self._get(MANIFEST), self._get(SUCCESS)
        manifest = parse_manifest(written.body, f"{self.destination}{MANIFEST}") if written else None
        return Published(manifest=manifest, written=written, success=success)

    def find_done(self, published: Published) -> Manifest | None:
        """The manifest of this task instance's own export, if at most ``_SUCCESS`` is missing.

        Whoever has read a complete folder may move the files. In an incomplete folder all files of the manifest must
        exist.
        """
        manifest = published.manifest
        if manifest is None or not manifest.is_of(self.identity, is_complete=published.is_complete):
            return None
        return manifest if published.is_complete or not manifest.lacks(self._list()) else None

    def check_free(self, published: Published, *, overwrite: bool) -> None:
        """Check that an export may fill the folder.

        :raises TargetError: if the folder belongs to somebody else.
        """
        manifest = published.manifest
        if manifest is None and published.success is None:
            return
        if manifest is None:
            raise TargetError(
                "folder-in-use",
                f"{self.destination} has a {SUCCESS}, but no {MANIFEST}: another program wrote it, and it is"
                " impossible to tell which files belong to it; remove them, or export to another folder",
            )
        if overwrite or (manifest.query_id.startswith(f"{self.identity.load_id}-") and not published.is_complete):
            return
        state = "holds the complete export" if published.is_complete else "holds an unfinished export"
        raise TargetError(
            "folder-in-use",
            f"{self.destination} {state} of {manifest.owner}, {count_of(manifest.rows, 'row')}; nothing was changed:"
            " set overwrite=True to replace it, or export to another folder, such as one for each run",
        )

    def list_own(self) -> tuple[SourceFile, ...]:
        """List the objects written into the folder by exports of this task instance, in any life of the task."""
        start = f"{self.identity.load_id}-"
        return tuple(one for one in self._list() if query_id_of(one.key).startswith(start))

    def list_written(self, query_id: str) -> tuple[SourceFile, ...]:
        """List the objects written by one attempt."""
        return tuple(sorted(one for one in self._list() if query_id_of(one.key) == query_id))

    def last_attempt(self) -> int:
        """The highest number of an attempt with an object in the folder; 0 without an object."""
        return max((attempt_of(query_id_of(one.key)) for one in self.list_own()), default=0)

    def remove_abandoned(self, start: str = "") -> None:
        """Remove the objects of this task instance's exports, except for the files of the manifest.

        :param start: remove only objects of attempts whose query ids begin like this; '' for all.
        :raises SourceError: if the store refuses.
        """
        manifest = self.read().manifest
        kept = manifest.versions if manifest else frozenset()
        written = versions_of(one for one in self.list_own() if query_id_of(one.key).startswith(start))
        self._remove(sorted(written - kept))

    def still_replaced(self, published: Published) -> tuple[Version, ...]:
        """The files replaced by a new manifest: the files of the old manifest, and files left behind by it."""
        old = published.manifest
        if old is None:
            return ()
        return tuple(sorted(versions_of(self._list()) & {*old.versions, *old.replaced}))

    def write_manifest(self, manifest: Manifest, instead_of: SmallObject | None) -> Manifest:
        """Write the manifest, if the folder is unchanged since this process read it; return the present manifest.

        :raises OvertakenError: if another export has filled the folder in the meantime.
        """
        bucket, key = self.destination.bucket, f"{self.destination.prefix}{MANIFEST}"
        if self.store.write(bucket, key, manifest.dump(), instead_of=instead_of):
            return manifest
        published = self.read()
        if there := self.find_done(published):
            return there
        owner = published.manifest.owner if published.manifest else "somebody"
        raise OvertakenError(
            "folder-in-use",
            f"{self.destination} was filled by {owner} while {manifest.query_id} ran, and was left as it is; give"
            " each export a folder of its own",
        )

    def complete(self, manifest: Manifest) -> None:
        """Write ``_SUCCESS``, and remove objects that do not belong to the export; can be repeated.

        :raises LoadError: if a file of the manifest is gone.
        :raises OvertakenError: if another export has filled the folder in the meantime.
        """
        published = self.read()
        overtaken = OvertakenError(
            "folder-in-use",
            f"another export has changed {self.destination} since {manifest.query_id} ended; give each export a"
            " folder of its own",
        )
        if published.manifest is None or published.manifest.query_id != manifest.query_id:
            raise overtaken
        if not published.is_complete:
            if gone := manifest.lacks(self._list()):
                raise LoadError(
                    "export-incomplete",
                    f"{self.destination} lacks {count_of(len(gone), 'file')} of {manifest.query_id}, such as"
                    f" {gone[0]!r}, so it was not completed; let the task try again",
                )
            key = f"{self.destination.prefix}{SUCCESS}"
            body = f"{manifest.query_id}\n".encode()
            self.store.write(self.destination.bucket, key, body, instead_of=published.success)
            if not self.read().is_complete:
                raise overtaken
        self._remove(manifest.replaced)
        self.remove_abandoned()

    def count_others(self, published: Published) -> int:
        """Number of objects in the folder that belong to no known export."""
        old = published.manifest.versions if published.manifest else frozenset()
        others = versions_of(self._list()) - versions_of(self.list_own()) - old
        small = {f"{self.destination.prefix}{name}" for name in (MANIFEST, SUCCESS)}
        return sum(key not in small for key, _ in others)

    def _remove(self, versions: Iterable[Version]) -> None:
        for key, etag in versions:
            self.store.delete(self.destination.bucket, key, etag)
            log.info("removed %s, which is not part of the export", key)

    def _list(self) -> tuple[SourceFile, ...]:
        return tuple(self.store.list_files(self.destination.source))

    def _get(self, name: str) -> SmallObject | None:
        return self.store.read(self.destination.bucket, f"{self.destination.prefix}{name}")
