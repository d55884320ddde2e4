"""What the operators for loads of lake tables in S3 have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_ch_s3.arguments import CatalogKeys
from airflow_provider_ch_s3.common.declared import CONNECTION, Kind, count
from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.contradictions import without_meaning
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import LOCATION, SourcePattern
from airflow_provider_ch_s3.lakes.table import SNAPSHOT
from airflow_provider_ch_s3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.lakes.store import LakeStore

OF_FOLDERS = {"data_format", "bad_rows", "after_load"}


class LakeToClickHouseOperator(S3ToClickHouseOperator):
    """Load a lake table in S3 into a ClickHouse table, by snapshots; the base of one operator for each format.

    The snapshot is chosen once, and the whole load reads the chosen snapshot. ``append`` adds the files added to the
    lake table since the snapshot in the ClickHouse table; files of a compaction add nothing; snapshots that removed
    rows are refused. The other modes load all rows of the snapshot. The files are read as plain Parquet files; a
    table is refused if the plain files would have other rows than the table.

    The remaining arguments are described in :class:`S3ToClickHouseOperator`, except the arguments about files that
    somebody writes into a folder: ``data_format``, ``bad_rows`` and ``after_load``.

    :param source: location of the table, ``s3://bucket/folder/of/the/table``.
    :param snapshot: ``latest``; the id of a snapshot, or a version; or a time with a zone, such as
        ``"{{ data_interval_end }}"``: the last snapshot of this time.
    :param max_metadata_bytes: bytes that the worker reads of one object of the lake's metadata, unpacked; parsed
        metadata take several times as much memory.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        **S3ToClickHouseOperator.kinds,
        "source": LOCATION,
        "snapshot": SNAPSHOT,
        "max_metadata_bytes": count(least=1),
    }
    template_fields: Sequence[str] = (*kinds, "sql")
    catalog_conn_id: str | None = None

    def __init__(
        self, *, source: str, snapshot: str = "latest", max_metadata_bytes: int = 512 * MIB, **kwargs: Any
    ) -> None:
        if wrong := sorted(OF_FOLDERS & kwargs.keys()):
            raise without_meaning(f"{wrong[0]}={kwargs[wrong[0]]!r}")
        super().__init__(source=source, data_format="Parquet", **kwargs)
        self.snapshot = snapshot
        self.max_metadata_bytes = max_metadata_bytes
        self.check_as_written(("source", "snapshot", "max_metadata_bytes"))

    def pattern_as_written(self) -> SourcePattern:
        """Return a pattern of the table's files, wherever the table is."""
        return SourcePattern(bucket="", globs=("**",), scheme=self.scheme)

    def open_store(self) -> LakeStore:  # type: ignore[override]
        """Open the table in S3 with the connection.

        :raises ConfigError: if an argument is wrong, or the library of the format is not installed.
        """
        from airflow_provider_ch_s3.hooks.lake import Lake

        lake = Lake(
            scheme=self.scheme,
            source=LOCATION.parse("source", self.source),
            catalog_conn_id=CONNECTION.parse("catalog_conn_id", self.catalog_conn_id),
            limit_bytes=self.kinds["max_metadata_bytes"].parse("max_metadata_bytes", self.max_metadata_bytes),
        )
        files = super().open_store()
        check_catalog(files.credentials, lake.catalog_conn_id)
        if isinstance(files.credentials, CatalogKeys):
            files.vend = partial(lake.vend_keys, files)
        return lake.open(files, SNAPSHOT.parse("snapshot", self.snapshot))

    def read_source(self, store: LakeStore) -> SourcePattern:  # type: ignore[override]
        """Return the files in the table's location."""
        return store.pattern


def check_catalog(credentials: object, catalog_conn_id: str | None) -> None:
    """:raises ConfigError: if a catalog must vend keys, and there is none."""
    if isinstance(credentials, CatalogKeys) and catalog_conn_id is None:
        raise ConfigError(
            "argument-missing", "credentials='catalog' needs a catalog; give catalog_conn_id, or other credentials"
        )
