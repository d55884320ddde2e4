"""The operator that loads files from Google Cloud Storage into ClickHouse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.files.addresses import GCS
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator

if TYPE_CHECKING:
    from airflow_provider_ch_s3.stores.gcs import GCSFileStore


class GCSToClickHouseOperator(FilesToClickHouseOperator):
    """Load files from Google Cloud Storage into a ClickHouse table.

    ClickHouse reads it by the S3 protocol, with an HMAC key of a service account; the worker lists the bucket with
    the same key.

    All further arguments are those of :class:`FilesToClickHouseOperator`.

    :param source: address of the files, ``gs://bucket/key``, or a list of addresses in one bucket; keys may contain
        the globs ``*``, ``**``, ``?``, ``{a,b}`` and ``{1..9}``. (templated)
    :param hmac_conn_id: connection of type ``aws`` with an HMAC key: its access ID is the login, its secret the
        password; None: the bucket is public. (templated)
    :param named_collection: named collection on the servers that contains an HMAC key, instead of that of
        ``hmac_conn_id``. (templated)
    """

    scheme = GCS
    template_fields: Sequence[str] = (*FilesToClickHouseOperator.template_fields, "hmac_conn_id", "named_collection")

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        hmac_conn_id: str | None = "google_cloud_hmac",
        named_collection: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(source=source, **kwargs)
        self.hmac_conn_id = hmac_conn_id
        self.named_collection = named_collection

    def open_store(self) -> GCSFileStore:
        """Open the store with the connection.

        :raises ConfigError: if an argument is wrong.
        """
        from airflow_provider_ch_s3.stores.gcs import GCSFileStore

        return GCSFileStore(hmac_conn_id=self.hmac_conn_id, named_collection=self.named_collection)
