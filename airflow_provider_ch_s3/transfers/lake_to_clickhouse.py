"""What the operators for loads of lake tables have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_ch_s3.arguments import (
    CREDENTIALS_OR_CATALOG,
    KEYS_OR_COLLECTION,
    CatalogKeys,
    NamedCollection,
    OwnKeys,
    Role,
)
from airflow_provider_ch_s3.common.declared import CONNECTION, FLAG, Kind, count, declared_fields
from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.contradictions import without_meaning
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import LOCATION, S3, Source
from airflow_provider_ch_s3.lakes.table import SNAPSHOT
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.stores.opening import find_store, open_store
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.files.stores import ReadableStore
    from airflow_provider_ch_s3.hooks.lake import Lake
    from airflow_provider_ch_s3.lakes.store import LakeStore

OF_FOLDERS = {name for name, field in declared_fields(LoadRequest).items() if field.metadata["is_of_folders"]}
"""Arguments that no lake table takes."""


class LakeToClickHouseOperator(FilesToClickHouseOperator):
    """Load a lake table into a ClickHouse table, by snapshots; the base of one operator for each format.

    The snapshot is chosen once, and the whole load reads the chosen snapshot. ``append`` adds the files added to the
    lake table since the snapshot in the ClickHouse table; files of a compaction add nothing; snapshots that removed
    rows are refused. The other modes load all rows of the snapshot. The files are read as plain Parquet files; a
    table is refused if the plain files would have other rows than the table.

    The remaining arguments are described in :class:`FilesToClickHouseOperator`, except the arguments about files that
    somebody writes into a folder: ``data_format``, ``bad_rows`` and ``after_load``. The operators of the formats
    describe the arguments about lakes.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        **FilesToClickHouseOperator.kinds,
        "source": LOCATION,
        "store_conn_id": CONNECTION,
        "catalog_conn_id": CONNECTION,
        "credentials": CREDENTIALS_OR_CATALOG,
        "requester_pays": FLAG,
        "snapshot": SNAPSHOT,
        "max_metadata_bytes": count(least=1),
    }
    template_fields: Sequence[str] = (*kinds, "sql")

    def __init__(
        self,
        *,
        source: str,
        store_conn_id: str | None = "aws_default",
        catalog_conn_id: str | None = None,
        credentials: str | NamedCollection | Role | CatalogKeys | Mapping[str, Any] = OwnKeys.name,
        requester_pays: bool = False,
        snapshot: str = "latest",
        max_metadata_bytes: int = 512 * MIB,
        **kwargs: Any,
    ) -> None:
        if wrong := sorted(OF_FOLDERS & kwargs.keys()):
            raise without_meaning(f"{wrong[0]}={kwargs[wrong[0]]!r}")
        super().__init__(source=source, data_format="Parquet", **kwargs)
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id
        self.credentials = credentials
        self.requester_pays = requester_pays
        self.snapshot = snapshot
        self.max_metadata_bytes = max_metadata_bytes
        self.check_as_written(self.kinds.keys() - FilesToClickHouseOperator.kinds.keys() | {"source"})
        if self.is_as_written("credentials"):
            check_catalog(CREDENTIALS_OR_CATALOG.parse("credentials", credentials), catalog_conn_id)

    def source_as_written(self) -> Source:
        """Return the table's files, wherever the table is."""
        return Source(bucket="", globs=("**",), scheme=self.scheme)

    def open_store(self) -> LakeStore:
        """Open the table with the connection of its store.

        :raises ConfigError: if an argument is wrong, or the library of the format is not installed.
        """
        from airflow_provider_ch_s3.hooks.lake import Lake

        lake = Lake(
            scheme=self.scheme,
            source=LOCATION.parse("source", self.source),
            catalog_conn_id=CONNECTION.parse("catalog_conn_id", self.catalog_conn_id),
            limit_bytes=self.kinds["max_metadata_bytes"].parse("max_metadata_bytes", self.max_metadata_bytes),
        )
        return lake.open(self._open_files(lake), SNAPSHOT.parse("snapshot", self.snapshot))

    def _open_files(self, lake: Lake) -> ReadableStore:
        named = lake.name_store(CONNECTION.parse("store_conn_id", self.store_conn_id))
        credentials = CREDENTIALS_OR_CATALOG.parse("credentials", self.credentials or OwnKeys())
        pays = FLAG.parse("requester_pays", self.requester_pays or False)
        check_catalog(credentials, lake.catalog_conn_id)
        scheme = named.scheme or find_store(named.conn_id)
        if scheme is not S3:
            if pays:
                raise without_meaning("requester_pays=True")
            return open_store(
                replace(named, scheme=scheme), credentials=KEYS_OR_COLLECTION.parse("credentials", credentials)
            )
        from airflow_provider_ch_s3.stores.s3 import S3FileStore

        files = S3FileStore(aws_conn_id=named.conn_id, credentials=credentials, requester_pays=pays, host=named.host)
        files.argument = named.argument
        if isinstance(credentials, CatalogKeys):
            files.vend = partial(lake.vend_keys, files)
        return files

    def read_source(self, store: LakeStore) -> Source:  # type: ignore[override]
        """Return the files in the table's location."""
        return store.source


def check_catalog(credentials: object, catalog_conn_id: str | None) -> None:
    """:raises ConfigError: if a catalog must vend keys, and there is none."""
    if isinstance(credentials, CatalogKeys) and catalog_conn_id is None:
        raise ConfigError(
            "argument-missing", "credentials='catalog' needs a catalog; give catalog_conn_id, or other credentials"
        )
