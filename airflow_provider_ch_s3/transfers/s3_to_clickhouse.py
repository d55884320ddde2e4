"""The operator for loads of files from S3 into ClickHouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_ch_s3.arguments import NamedCollection, OwnKeys, Role
from airflow_provider_ch_s3.common.declared import Kind
from airflow_provider_ch_s3.files.addresses import S3
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.task import S3_KINDS, s3_arguments

if TYPE_CHECKING:
    from airflow_provider_ch_s3.stores.s3 import S3FileStore


class S3ToClickHouseOperator(FilesToClickHouseOperator):
    """Load files from S3, or from an S3-compatible store, into a ClickHouse table.

    The remaining arguments are described in :class:`FilesToClickHouseOperator`.

    :param source: address of the files, ``s3://bucket/key`` or their URL at AWS, or a list of addresses in one
        bucket; keys may contain the globs ``*``, ``**``, ``?``, ``{a,b}`` and ``{1..9}``.
    :param aws_conn_id: connection of type ``aws``: the worker lists the bucket, and the servers read the files, with
        this connection; None: worker and servers use their own roles.
    :param credentials: the keys with which the servers read the files: ``connection``, the keys of ``aws_conn_id``;
        ``NamedCollection(name)``; or ``Role(arn)``.
    :param requester_pays: agree to pay for the requests, as the owner of the bucket asks of readers: worker and
        servers send ``x-amz-request-payer`` then.
    """

    scheme = S3
    kinds: ClassVar[Mapping[str, Kind]] = {**FilesToClickHouseOperator.kinds, **S3_KINDS}
    template_fields: Sequence[str] = (*kinds, "sql")

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        aws_conn_id: str | None = "aws_default",
        credentials: str | NamedCollection | Role | Mapping[str, Any] = OwnKeys.name,
        requester_pays: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(source=source, **kwargs)
        self.aws_conn_id = aws_conn_id
        self.credentials = credentials
        self.requester_pays = requester_pays
        self.check_as_written(S3_KINDS)

    def open_store(self) -> S3FileStore:
        """Open S3 with the connection.

        :raises ConfigError: if an argument is wrong.
        """
        from airflow_provider_ch_s3.stores.s3 import S3FileStore

        return S3FileStore(**s3_arguments(self, self.source))
