"""What a load needs of an object store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from airflow_provider_ch_s3.source import S3Access, SourceFile, SourcePattern


class ObjectStore(Protocol):
    """One object store, seen with one set of credentials; implemented by ``S3FileStore``."""

    def list_files(self, pattern: SourcePattern) -> Iterable[SourceFile]:
        """All objects under the pattern's prefixes.

        :raises SourceError: if the bucket is missing or may not be listed.
        """

    def read_tail(self, bucket: str, key: str, size_bytes: int) -> bytes:
        """The last bytes of an object, or all that it has.

        :raises SourceError: if it is gone, or may not be read.
        """

    def access(self) -> S3Access:
        """How the ClickHouse servers reach the same store."""
