"""The operator for loads of Iceberg tables into ClickHouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_provider_ch_s3.arguments import CREDENTIALS_OR_CATALOG, CatalogKeys, NamedCollection, OwnKeys, Role
from airflow_provider_ch_s3.common.declared import CONNECTION, Kind
from airflow_provider_ch_s3.common.environment import refuse_unreadable
from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.discretion import keep_connection
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import ICEBERG
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.lakes.store import OpenTable
    from airflow_provider_ch_s3.stores.s3 import S3FileStore


class IcebergToClickHouseOperator(LakeToClickHouseOperator):
    """Load an Iceberg table into a ClickHouse table; needs the extra ``iceberg``.

    The remaining arguments are described in :class:`LakeToClickHouseOperator`.

    :param source: location of the table, ``s3://bucket/folder/of/the/table``; with ``catalog_conn_id`` the name,
        ``namespace.table``.
    :param catalog_conn_id: connection of a catalog with the table, for example of type ``iceberg``: the host is the
        address of a REST catalog, login and password are the client's id and secret, and the extra has further
        properties of pyiceberg, such as ``{"type": "sql", "name": "prod", "uri": …}``; None: the newest metadata file
        in the location counts.
    :param credentials: as for :class:`S3ToClickHouseOperator`, or ``catalog``: worker and servers read with keys that
        a REST catalog vends for the table, and ``aws_conn_id`` has only the endpoint and the region.
    :param snapshot: ``latest``, the id of a snapshot, or a time with a zone: the last snapshot of this time. The
        snapshot is chosen once, and the whole load reads the chosen snapshot.
    :param max_metadata_bytes: bytes that the worker reads of one object of the lake's metadata, unpacked; parsed
        metadata take several times as much memory.
    """

    scheme = ICEBERG
    kinds: ClassVar[Mapping[str, Kind]] = {
        **LakeToClickHouseOperator.kinds,
        "credentials": CREDENTIALS_OR_CATALOG,
        "catalog_conn_id": CONNECTION,
    }
    template_fields: Sequence[str] = (*kinds, "sql")

    def __init__(
        self,
        *,
        source: str,
        catalog_conn_id: str | None = None,
        credentials: str | NamedCollection | Role | CatalogKeys | Mapping[str, Any] = OwnKeys.name,
        snapshot: str = "latest",
        max_metadata_bytes: int = 512 * MIB,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            source=source,
            credentials=credentials,
            snapshot=snapshot,
            max_metadata_bytes=max_metadata_bytes,
            **kwargs,
        )
        self.catalog_conn_id = catalog_conn_id
        self.check_as_written(("catalog_conn_id",))
        if catalog_conn_id is None and credentials in (CatalogKeys.name, CatalogKeys()):
            raise ConfigError(
                "argument-missing",
                "credentials='catalog' needs a catalog; give catalog_conn_id, or other credentials",
            )

    def find_table(self, source: str, files: S3FileStore, limit_bytes: int) -> tuple[str, OpenTable]:
        """Import pyiceberg, and ask the catalog for the location, if there is a catalog.

        :raises ConfigError: if the connection is missing, or the catalog does not know the table.
        """
        from airflow_provider_ch_s3.lakes.iceberg import CatalogTable, IcebergTable

        conn_id = CONNECTION.parse("catalog_conn_id", self.catalog_conn_id)
        if conn_id is None:
            return source, partial(IcebergTable, limit_bytes=limit_bytes)
        properties = _read_properties(conn_id)
        table = CatalogTable(name=source, conn_id=conn_id, properties=properties, limit_bytes=limit_bytes)
        if isinstance(files.credentials, CatalogKeys):
            files.vend = partial(table.vend_keys, files)
        return table.locate(files), table.open


def _read_properties(conn_id: str) -> Mapping[str, Any]:
    """Read pyiceberg's properties of a catalog from the catalog's connection.

    :raises ConfigError: if the connection does not exist.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        refuse_unreadable(conn_id)
        raise ConfigError(
            "connection-missing",
            f"Airflow has no connection {conn_id!r}; create it, correct catalog_conn_id, or give the table's location"
            " as source instead",
        ) from error
    keep_connection(connection.login, connection.password, connection.extra_dejson)
    properties = dict(connection.extra_dejson)
    if connection.host:
        properties.setdefault("uri", connection.host)
    if connection.login:
        properties.setdefault("credential", f"{connection.login}:{connection.password or ''}")
    return properties
