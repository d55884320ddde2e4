"""Open the store of an address with a connection; only the module of this store is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ch_s3.arguments import OWN_KEYS, NamedCollection, OwnKeys
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.files.addresses import AZURE, GCS, NamedStore

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
    if named.scheme is AZURE:
        if named.conn_id is None:
            raise ConfigError(
                "argument-missing",
                f"{named.argument} is None, and Azure Blob Storage needs a connection of type wasb; give"
                f" {named.argument} its id",
            )
        store = open_azure(named.conn_id, credentials=credentials)
    elif named.scheme is GCS:
        from airflow_provider_ch_s3.stores.gcs import GCSFileStore

        store = GCSFileStore(hmac_conn_id=named.conn_id, credentials=credentials, host=named.host)
    else:
        from airflow_provider_ch_s3.stores.s3 import S3FileStore

        store = S3FileStore(aws_conn_id=named.conn_id, credentials=credentials, host=named.host)
    store.argument = named.argument
    return store


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
