"""Open the store of an address, or of a connection; only the module of this store is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_provider_ch_s3.arguments import OWN_KEYS, NamedCollection, OwnKeys
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import AZURE, GCS, S3, NamedStore, Scheme

if TYPE_CHECKING:
    from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore
    from airflow_provider_ch_s3.stores.s3 import S3FileStore


def open_store(
    named: NamedStore, *, credentials: OwnKeys | NamedCollection = OWN_KEYS
) -> S3FileStore | AzureBlobFileStore:
    """Open a store.

    :param credentials: with which the servers read.
    :raises ConfigError: if the library for the store is not installed, or Azure has no connection.
    """
    store: S3FileStore | AzureBlobFileStore
    scheme = named.scheme or find_store(named.conn_id)
    if scheme is AZURE:
        if named.conn_id is None:
            raise ConfigError(
                "argument-missing",
                f"{named.argument} is None, and Azure Blob Storage needs a connection of type wasb; give"
                f" {named.argument} its id",
            )
        store = open_azure(named.conn_id, credentials=credentials)
    elif scheme is GCS:
        from airflow_provider_ch_s3.stores.gcs import GCSFileStore

        store = GCSFileStore(hmac_conn_id=named.conn_id, credentials=credentials, host=named.host)
    else:
        from airflow_provider_ch_s3.stores.s3 import S3FileStore

        store = S3FileStore(aws_conn_id=named.conn_id, credentials=credentials, host=named.host)
    store.argument = named.argument
    return store


def find_store(conn_id: str | None) -> Scheme:
    """Find the kind of store behind a connection: the type tells Azure, the endpoint tells Google."""
    if conn_id is None:
        return S3
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return S3  # where opening the store says what to do
    if connection.conn_type == "wasb":
        return AZURE
    from airflow_provider_ch_s3.stores.gcs import GOOGLE

    endpoint_url = str(connection.extra_dejson.get("endpoint_url", ""))
    return GCS if endpoint_url.rstrip("/") == GOOGLE else S3


def open_azure(conn_id: str, *, credentials: OwnKeys | NamedCollection) -> AzureBlobFileStore:
    """Open Azure Blob Storage.

    :raises ConfigError: if the Microsoft provider is not installed.
    """
    try:
        from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore
    except ImportError as error:
        raise ConfigError(
            "library-missing",
            f"loading from Azure Blob Storage needs the Microsoft provider ({error}); on the workers, pip install"
            " 'airflow-provider-ch-s3[azure]'",
        ) from error
    return AzureBlobFileStore(wasb_conn_id=conn_id, credentials=credentials)
