"""Google Cloud Storage through the S3 protocol: the ClickHouse servers read only this protocol from Google."""

from __future__ import annotations

from typing import Any

from airflow_provider_ch_s3.arguments import OWN_KEYS, NamedCollection, OwnKeys
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import GCS
from airflow_provider_ch_s3.stores.s3 import S3FileStore

GOOGLE = "https://storage.googleapis.com"
KEYS_OF_AWS = ("AKIA", "ASIA")
"""What the ids of AWS's keys begin with; ASIA: a worker's own role, whose session token would be sent as well."""


class GCSFileStore(S3FileStore):
    """The buckets of Google Cloud Storage.

    :param hmac_conn_id: an Airflow connection of type ``aws`` with an HMAC key: the access ID as login, the secret as
        password. None: the bucket is public.
    :param credentials: the servers' own: with a named collection, the connection is used only for listing.
    :param host: of the store, if the source is a URL.
    """

    argument = "hmac_conn_id"
    scheme = GCS
    public = f"{GOOGLE}/bucket/key"
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
        if endpoint_url.rstrip("/") == GOOGLE and not self._is_public:
            self._check_key()
        return self._build_client("auto", endpoint_url, verify=None)

    def _check_key(self) -> None:
        """Send Google no key of AWS.

        :raises ConfigError: if the connection has a key of AWS, or the worker's own role.
        """
        key = self._hook.get_session().get_credentials()
        if key and key.access_key.startswith(KEYS_OF_AWS):
            raise ConfigError(
                "connection-invalid",
                f"connection {self.aws_conn_id!r} signs with a key of AWS, and the source is in"
                f" Google Cloud Storage; set {self.argument} to a connection with an HMAC key of Google, or to None"
                " to read a public bucket",
            )
