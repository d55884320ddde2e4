"""Google Cloud Storage through the S3 protocol: the ClickHouse servers read only this protocol from Google."""

from __future__ import annotations

from typing import Any

from airflow_provider_ch_s3.arguments import OWN_KEYS, NamedCollection, OwnKeys
from airflow_provider_ch_s3.stores.s3 import S3FileStore

GOOGLE = "https://storage.googleapis.com"


class GCSFileStore(S3FileStore):
    """The buckets of Google Cloud Storage.

    :param hmac_conn_id: an Airflow connection of type ``aws`` with an HMAC key: the access ID as login, the secret as
        password. None: the bucket is public.
    :param credentials: the servers' own: with a named collection, the connection is used only for listing.
    :param host: of the store, if the source is a URL.
    """

    argument = "hmac_conn_id"
    store = "Google Cloud Storage"
    without_connection = "read a public bucket"

    def __init__(
        self, *, hmac_conn_id: str | None, credentials: OwnKeys | NamedCollection = OWN_KEYS, host: str = ""
    ) -> None:
        super().__init__(aws_conn_id=hmac_conn_id, credentials=credentials, host=host)

    @property
    def _is_public(self) -> bool:
        return self._connection is None

    def _connect(self) -> Any:
        endpoint_url = self._hook.conn_config.get_service_endpoint_url("s3") or GOOGLE
        return self._build_client("auto", endpoint_url, verify=None)
