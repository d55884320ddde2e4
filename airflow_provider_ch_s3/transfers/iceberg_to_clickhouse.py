"""The operator for loads of Iceberg tables into ClickHouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_ch_s3.arguments import CREDENTIALS_OR_CATALOG, CatalogKeys, NamedCollection, OwnKeys, Role
from airflow_provider_ch_s3.common.declared import CONNECTION, Kind
from airflow_provider_ch_s3.common.text import MIB
from airflow_provider_ch_s3.files.addresses import ICEBERG
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator, check_catalog


class IcebergToClickHouseOperator(LakeToClickHouseOperator):
    """Load an Iceberg table into a ClickHouse table; needs the extra ``iceberg``.

    The remaining arguments are described in :class:`LakeToClickHouseOperator`.

    :param source: location of the table, ``s3://bucket/folder/of/the/table``, ``gs://…`` or ``az://…``; with
        ``catalog_conn_id`` the name, ``namespace.table``.
    :param store_conn_id: connection to the store: of type ``aws``, in Google Cloud Storage with an HMAC key; in Azure
        of type ``wasb``. None: worker and servers use their own roles, and a bucket of Google is public.
    :param catalog_conn_id: connection of a catalog with the table, for example of type ``iceberg``: the host is the
        address of a REST catalog, login and password are the client's id and secret, and the extra has further
        properties of pyiceberg, such as ``{"type": "sql", "name": "prod", "uri": …}``; None: the newest metadata file
        in the location counts.
    :param credentials: the keys with which the servers read the files: ``connection``, the keys of ``store_conn_id``;
        ``NamedCollection(name)``; in S3 ``Role(arn)``; or ``catalog``: worker and servers read with keys that a REST
        catalog vends for the table, and ``store_conn_id`` has only the endpoint and the region.
    :param requester_pays: in S3, agree to pay for the requests, as the owner of the bucket asks of readers.
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
        store_conn_id: str | None = "aws_default",
        catalog_conn_id: str | None = None,
        credentials: str | NamedCollection | Role | CatalogKeys | Mapping[str, Any] = OwnKeys.name,
        requester_pays: bool = False,
        snapshot: str = "latest",
        max_metadata_bytes: int = 512 * MIB,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            source=source,
            store_conn_id=store_conn_id,
            credentials=credentials,  # type: ignore[arg-type]  # only this class has catalogs
            requester_pays=requester_pays,
            snapshot=snapshot,
            max_metadata_bytes=max_metadata_bytes,
            **kwargs,
        )
        self.catalog_conn_id = catalog_conn_id
        self.check_as_written(("catalog_conn_id",))
        if self.is_as_written("credentials"):
            check_catalog(CREDENTIALS_OR_CATALOG.parse("credentials", credentials), catalog_conn_id)
