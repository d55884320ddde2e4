"""The operator that loads files from Google Cloud Storage into ClickHouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_ch_s3.arguments import KEYS_OR_COLLECTION, NamedCollection, OwnKeys
from airflow_provider_ch_s3.common.declared import CONNECTION, Kind
from airflow_provider_ch_s3.files.addresses import GCS, find_host
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.templates import parse_arguments

if TYPE_CHECKING:
    from airflow_provider_ch_s3.stores.gcs import GCSFileStore


class GCSToClickHouseOperator(FilesToClickHouseOperator):
    """Load files from Google Cloud Storage into a ClickHouse table.

    ClickHouse reads the bucket by the S3 protocol, with an HMAC key of a service account; the worker lists the bucket
    with the same key.

    The remaining arguments are described in :class:`FilesToClickHouseOperator`.

    :param source: address of the files, ``gs://bucket/key`` or their URL at Google, or a list of addresses in one
        bucket; keys may contain the globs ``*``, ``**``, ``?``, ``{a,b}`` and ``{1..9}``.
    :param hmac_conn_id: connection of type ``aws`` with an HMAC key: the access ID is the login, the secret the
        password; None: the bucket is public.
    :param credentials: the key with which the servers read the files: ``connection``, the key of ``hmac_conn_id``, or
        ``NamedCollection(name)``.
    """

    scheme = GCS
    kinds: ClassVar[Mapping[str, Kind]] = {
        **FilesToClickHouseOperator.kinds,
        "hmac_conn_id": CONNECTION,
        "credentials": KEYS_OR_COLLECTION,
    }
    template_fields: Sequence[str] = (*kinds, "sql")

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        hmac_conn_id: str | None = "google_cloud_hmac",
        credentials: str | NamedCollection | Mapping[str, Any] = OwnKeys.name,
        **kwargs: Any,
    ) -> None:
        super().__init__(source=source, **kwargs)
        self.hmac_conn_id = hmac_conn_id
        self.credentials = credentials
        self.check_as_written(("hmac_conn_id", "credentials"))

    def open_store(self) -> GCSFileStore:
        """Open the store with the connection.

        :raises ConfigError: if an argument is wrong.
        """
        from airflow_provider_ch_s3.stores.gcs import GCSFileStore

        given = parse_arguments(self, ("hmac_conn_id", "credentials"))
        return GCSFileStore(**given, host=find_host(self.source, GCS))
