"""The operator that loads files from S3 into ClickHouse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ch_s3.files.addresses import S3
from airflow_provider_ch_s3.transfers.files_to_clickhouse import FilesToClickHouseOperator
from airflow_provider_ch_s3.transfers.task import HidesExternalId, s3_arguments

if TYPE_CHECKING:
    from airflow_provider_ch_s3.stores.s3 import S3FileStore


class S3ToClickHouseOperator(HidesExternalId, FilesToClickHouseOperator):
    """Load files from S3, or from a store that speaks its protocol, into a ClickHouse table.

    All further arguments are those of :class:`FilesToClickHouseOperator`.

    :param source: address of the files, ``s3://bucket/key``, or a list of addresses in one bucket; keys may contain
        the globs ``*``, ``**``, ``?``, ``{a,b}`` and ``{1..9}``. (templated)
    :param aws_conn_id: connection of type ``aws``, with which the worker lists the bucket and the servers read the
        files; None: worker and servers use their own roles. (templated)
    :param named_collection: named collection on the servers that contains the keys, instead of those of
        ``aws_conn_id``. (templated)
    :param role_arn: ARN of a role that the servers assume to read the files, as in ClickHouse Cloud; needs ClickHouse
        25.8 or later. (templated)
    :param external_id: what the role's owner asks for when the servers assume ``role_arn``; needs ClickHouse 26.6 or
        later. (templated)
    :param requester_pays: agree to pay for the requests, as the owner of the bucket asks of its readers: worker and
        servers send ``x-amz-request-payer`` then.
    """

    scheme = S3
    template_fields: Sequence[str] = (
        *FilesToClickHouseOperator.template_fields,
        "aws_conn_id",
        "named_collection",
        "role_arn",
        "external_id",
    )

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        aws_conn_id: str | None = "aws_default",
        named_collection: str = "",
        role_arn: str = "",
        external_id: str = "",
        requester_pays: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(source=source, **kwargs)
        self.aws_conn_id = aws_conn_id
        self.named_collection = named_collection
        self.role_arn = role_arn
        self.external_id = external_id
        self.requester_pays = requester_pays

    def open_store(self) -> S3FileStore:
        """Open S3 with the connection.

        :raises ConfigError: if an argument is wrong.
        """
        from airflow_provider_ch_s3.stores.s3 import S3FileStore

        return S3FileStore(**s3_arguments(self))
