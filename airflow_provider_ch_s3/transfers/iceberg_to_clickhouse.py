"""The operator for loads of Iceberg tables into ClickHouse."""

from __future__ import annotations

from airflow_provider_ch_s3.files.addresses import ICEBERG
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator


class IcebergToClickHouseOperator(LakeToClickHouseOperator):
    """Load an Iceberg table into a ClickHouse table; needs the extra ``iceberg``.

    The remaining arguments are described in :class:`LakeToClickHouseOperator`.

    :param source: location of the table, ``s3://bucket/folder/of/the/table``, ``gs://…`` or ``az://…``; with
        ``catalog_conn_id`` the name, ``namespace.table``.
    :param store_conn_id: connection to the store: of type ``aws``, in Google Cloud Storage with an HMAC key; in Azure
        of type ``wasb``. None: in S3, worker and servers use their own roles, and a bucket of Google is public.
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
