"""The operator for loads of Delta tables into ClickHouse."""

from __future__ import annotations

from airflow_provider_ch_s3.files.addresses import DELTA
from airflow_provider_ch_s3.transfers.lake_to_clickhouse import LakeToClickHouseOperator


class DeltaToClickHouseOperator(LakeToClickHouseOperator):
    """Load a Delta table into a ClickHouse table; needs the extra ``delta``.

    The remaining arguments are described in :class:`LakeToClickHouseOperator`.

    :param source: location of the table, ``s3://bucket/folder/of/the/table``, ``gs://…`` or ``az://…``; with
        ``catalog_conn_id`` the name, ``catalog.schema.table``.
    :param store_conn_id: connection to the store: of type ``aws``, in Google Cloud Storage with an HMAC key; in Azure
        of type ``wasb``. None: in S3, worker and servers use their own roles, and a bucket of Google is public.
    :param catalog_conn_id: connection of a Unity Catalog with the table: the host is the address, the password a
        token; None: the log in the location counts.
    :param credentials: the keys with which the servers read the files: ``connection``, the keys of ``store_conn_id``;
        ``NamedCollection(name)``; in S3 ``Role(arn)``; or ``catalog``: worker and servers read with keys that the
        catalog vends for the table, and ``store_conn_id`` has only the endpoint and the region.
    :param requester_pays: in S3, agree to pay for the requests, as the owner of the bucket asks of readers.
    :param snapshot: ``latest``, a version, or a time with a zone: the last version of this time. The version is
        chosen once, and the whole load reads the chosen version.
    :param max_metadata_bytes: bytes that the worker reads of one object of the lake's metadata, unpacked; parsed
        metadata take several times as much memory.
    """

    scheme = DELTA
