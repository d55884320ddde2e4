"""The operator that loads files from Azure Blob Storage into ClickHouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_ch_s3.arguments import KEYS_OR_COLLECTION, NamedCollection, OwnKeys
from airflow_provider_ch_s3.common.declared import TEXT, Kind
from airflow_provider_ch_s3.files.addresses import AZURE
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.templates import parse_arguments

if TYPE_CHECKING:
    from airflow_provider_ch_s3.stores.azure import AzureBlobFileStore


class AzureBlobStorageToClickHouseOperator(FilesToClickHouseOperator):
    """Load files from Azure Blob Storage into a ClickHouse table; needs ``airflow-provider-ch-s3[azure]``.

    The remaining arguments are described in :class:`FilesToClickHouseOperator`.

    :param source: address of the files, ``az://container/path``, or a list of addresses in one container; paths may
        contain the globs ``*``, ``**``, ``?``, ``{a,b}`` and ``{1..9}``.
    :param wasb_conn_id: connection of type ``wasb`` with the account and the key, a SAS token or a connection string;
        the worker lists the container, and the servers read the files with the connection. Or with an application of
        Entra ID: the servers log in as the application with their workload identity (ClickHouse 25.8 or later). Or
        with neither: worker and servers use their own identities.
    :param credentials: how the servers read the files: ``connection``, as ``wasb_conn_id`` says, or
        ``NamedCollection(name)``, with the account and the key.
    """

    scheme = AZURE
    kinds: ClassVar[Mapping[str, Kind]] = {
        **FilesToClickHouseOperator.kinds,
        "wasb_conn_id": TEXT,
        "credentials": KEYS_OR_COLLECTION,
    }
    template_fields: Sequence[str] = (*kinds, "sql")

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        wasb_conn_id: str = "wasb_default",
        credentials: str | NamedCollection | Mapping[str, Any] = OwnKeys.name,
        **kwargs: Any,
    ) -> None:
        super().__init__(source=source, **kwargs)
        self.wasb_conn_id = wasb_conn_id
        self.credentials = credentials
        self.check_as_written(("wasb_conn_id", "credentials"))

    def open_store(self) -> AzureBlobFileStore:
        """Open the store with the connection.

        :raises ConfigError: if an argument is wrong.
        """
        from airflow_provider_ch_s3.stores.opening import open_azure

        given = parse_arguments(self, ("wasb_conn_id", "credentials"))
        return open_azure(given["wasb_conn_id"], credentials=given["credentials"])
