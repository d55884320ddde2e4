"""The operator that queries files in S3 where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_ch_s3.common.arguments import check_settings, check_text, parse_count
from airflow_provider_ch_s3.files.addresses import parse_source
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.transfers.failures import fails_plainly
from airflow_provider_ch_s3.transfers.task import HidesExternalId, identify, s3_arguments, timeout_of
from airflow_provider_ch_s3.tuning import SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

MAX_ROWS = 1000


class S3QueryOperator(HidesExternalId, BaseOperator):  # type: ignore[misc]
    """Run a SELECT over files in S3, or in a store that speaks its protocol, without loading them.

    The connected server reads the files that the worker has listed, with the credentials of a connection, which are
    in no SQL text, and with settings for reading in place. The rows of the result go through XCom.

    :param sql: a SELECT in which ``{files}`` stands where a table would be: ``SELECT count() FROM {files}``.
        (templated)
    :param source: address of the files, ``s3://bucket/key``, or a list of addresses in one bucket; keys may contain
        the globs ``*``, ``**``, ``?``, ``{a,b}`` and ``{1..9}``. (templated)
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``). (templated)
    :param aws_conn_id: connection of type ``aws``, with which the worker lists the bucket and the server reads the
        files; None: worker and server use their own roles. (templated)
    :param named_collection: named collection on the server that contains the keys, instead of those of
        ``aws_conn_id``. (templated)
    :param role_arn: ARN of a role that the server assumes to read the files; needs ClickHouse 25.8 or later.
        (templated)
    :param external_id: what the role's owner asks for when the servers assume ``role_arn``; needs ClickHouse 26.6 or
        later. (templated)
    :param requester_pays: agree to pay for the requests, as the owner of the bucket asks of its readers: worker and
        servers send ``x-amz-request-payer`` then.
    :param data_format: ClickHouse's name of the format; None: inferred from the file names. (templated)
    :param compression: ClickHouse's name of the compression; None: inferred from the file names. (templated)
    :param structure: columns of the files as ``name Type, …``; None: inferred by the server. (templated)
    :param max_rows: number of rows above which the task fails, because all of them go to Airflow's database.
        (templated)
    :param settings: ClickHouse settings; they override those of the connection and the computed ones. (templated)
    :returns: a list of rows, each as a dict, through XCom.
    :raises ConfigError: if an argument or a field of the connection has a wrong value.
    :raises SourceError: if there are no such files, or the server refuses the query.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    :raises LoadError: if the result has more than ``max_rows`` rows.
    :raises AirflowFailException: in the place of each of these that no retry can change, such as wrong arguments; it
        has the error as its context.
    """

    template_fields: Sequence[str] = (
        "sql",
        "source",
        "clickhouse_conn_id",
        "aws_conn_id",
        "named_collection",
        "role_arn",
        "external_id",
        "data_format",
        "compression",
        "structure",
        "max_rows",
        "settings",
    )
    template_fields_renderers = {"sql": "sql", "structure": "sql", "settings": "json"}  # noqa: RUF012
    ui_color = "#faff69"

    def __init__(
        self,
        *,
        sql: str,
        source: str | Sequence[str],
        clickhouse_conn_id: str = ClickHouseS3Hook.default_conn_name,
        aws_conn_id: str | None = "aws_default",
        named_collection: str = "",
        role_arn: str = "",
        external_id: str = "",
        requester_pays: bool = False,
        data_format: str | None = None,
        compression: str | None = None,
        structure: str | None = None,
        max_rows: int | str = MAX_ROWS,
        settings: Mapping[str, SettingValue] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.source = source
        self.clickhouse_conn_id = clickhouse_conn_id
        self.aws_conn_id = aws_conn_id
        self.named_collection = named_collection
        self.role_arn = role_arn
        self.external_id = external_id
        self.requester_pays = requester_pays
        self.data_format = data_format
        self.compression = compression
        self.structure = structure
        self.max_rows = max_rows
        self.settings = settings
        self._kill: Callable[[], object] = lambda: None

    @fails_plainly
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Run the query, and return its rows.

        :raises ChS3Error: as described for the class.
        """
        # Imported here, because Airflow parses DAG files every few seconds, and parsing needs none of this.
        from airflow_provider_ch_s3.export.in_place import InPlaceRequest, query_in_place
        from airflow_provider_ch_s3.query.state import kill_queries
        from airflow_provider_ch_s3.stores.s3 import S3FileStore

        self._check_arguments()
        hook = ClickHouseS3Hook(clickhouse_conn_id=self.clickhouse_conn_id)
        store = S3FileStore(**s3_arguments(self))
        hook.keep_secret(lambda: store.access().secrets)
        declared = hook.declaration
        request = InPlaceRequest(
            pattern=parse_source(self.source),
            sql=self.sql,
            data_format=self.data_format,
            compression=self.compression,
            structure=self.structure,
            settings=self.settings or {},
            connection_settings=hook.connection_settings,
            max_rows=parse_count("max_rows", self.max_rows, least=1),
            timeout_seconds=timeout_of(self),
        )
        identity = identify(context, table="")
        self._kill = lambda: kill_queries(hook, declared.cluster, identity.generation_prefix)
        try:
            if identity.try_number > 1:
                self._kill()  # a worker that died has left its query running
            return query_in_place(hook, store, declared, request, identity.query_id(identity.try_number))
        finally:
            hook.close()

    def on_kill(self) -> None:
        """Stop the query."""
        self._kill()

    def _check_arguments(self) -> None:
        check_text("sql", self.sql)
        check_text("clickhouse_conn_id", self.clickhouse_conn_id)
        for name in ("data_format", "compression", "structure"):
            check_text(name, getattr(self, name), is_optional=True)
        check_settings("settings", self.settings)
