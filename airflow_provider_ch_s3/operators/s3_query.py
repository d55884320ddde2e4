"""The operator for queries of files in S3 in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_ch_s3.arguments import Csv, Format, NamedCollection, OwnKeys, Role
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.declared import NAME, SETTINGS, SQL, Kind, count
from airflow_provider_ch_s3.files.addresses import SOURCE, parse_source
from airflow_provider_ch_s3.files.data_format import DATA_FORMAT
from airflow_provider_ch_s3.transfers.failures import fails_plainly
from airflow_provider_ch_s3.transfers.task import S3_KINDS, identify, s3_arguments, timeout_of
from airflow_provider_ch_s3.transfers.templates import RendersArguments, parse_arguments, renderers_of
from airflow_provider_ch_s3.tuning import SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

MAX_ROWS = 1000


class S3QueryOperator(RendersArguments, BaseOperator):  # type: ignore[misc]
    """Run a SELECT over files in S3, or in an S3-compatible store, without loading them.

    The connected server reads the files listed by the worker, with the credentials of a connection, which no SQL text
    contains, and with settings for reading in place. The rows of the result go through XCom.

    :param sql: a SELECT with ``{files}`` in place of a table: ``SELECT count() FROM {files}``.
    :param source: address of the files, ``s3://bucket/key`` or their URL at AWS, or a list of addresses in one
        bucket; keys may contain the globs ``*``, ``**``, ``?``, ``{a,b}`` and ``{1..9}``.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``).
    :param aws_conn_id: connection of type ``aws``: the worker lists the bucket, and the server reads the files, with
        this connection; None: worker and server use their own roles.
    :param credentials: the keys with which the server reads the files: ``connection``, the keys of ``aws_conn_id``;
        ``NamedCollection(name)``; or ``Role(arn)``.
    :param requester_pays: agree to pay for the requests, as the owner of the bucket asks of readers: worker and
        servers send ``x-amz-request-payer`` then.
    :param data_format: how the files are written: ClickHouse's name of the format, or ``Format(…)``, or ``Csv(…)``;
        None: inferred from the file names.
    :param max_rows: number of rows above which the task fails, because all rows go to Airflow's database.
    :param settings: ClickHouse settings; they override the connection's settings and computed settings.
    :returns: a list of rows, each as a dict, through XCom.
    :raises ConfigError: if an argument or a field of the connection has a wrong value.
    :raises SourceError: if the files do not exist, or the server refuses the query.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    :raises LoadError: if the result has more than ``max_rows`` rows.
    :raises AirflowFailException: instead of an error above, if no retry can change the error, such as wrong
        arguments; has the error as its context.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "sql": SQL,
        "source": SOURCE,
        "clickhouse_conn_id": NAME,
        **S3_KINDS,
        "data_format": DATA_FORMAT,
        "max_rows": count(least=1),
        "settings": SETTINGS,
    }
    template_fields: Sequence[str] = tuple(kinds)
    template_fields_renderers = renderers_of(kinds)
    ui_color = "#faff69"

    def __init__(
        self,
        *,
        sql: str,
        source: str | Sequence[str],
        clickhouse_conn_id: str = DEFAULT_CONNECTION,
        aws_conn_id: str | None = "aws_default",
        credentials: str | NamedCollection | Role | Mapping[str, Any] = OwnKeys.name,
        requester_pays: bool = False,
        data_format: str | Format | Csv | Mapping[str, Any] | None = None,
        max_rows: int | str = MAX_ROWS,
        settings: Mapping[str, SettingValue] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.source = source
        self.clickhouse_conn_id = clickhouse_conn_id
        self.aws_conn_id = aws_conn_id
        self.credentials = credentials
        self.requester_pays = requester_pays
        self.data_format = data_format
        self.max_rows = max_rows
        self.settings = settings
        self.check_as_written(self.kinds)
        self._kill: Callable[[], object] = lambda: None

    @fails_plainly
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Run the query, and return the rows.

        :raises ChS3Error: as described for the class.
        """
        # Imported here, because Airflow parses DAG files every few seconds, and parsing needs none of this.
        from airflow_provider_ch_s3.export.in_place import InPlaceRequest, query_in_place
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
        from airflow_provider_ch_s3.monitoring.state import kill_queries
        from airflow_provider_ch_s3.stores.s3 import S3FileStore

        hook = ClickHouseS3Hook(clickhouse_conn_id=NAME.parse("clickhouse_conn_id", self.clickhouse_conn_id))
        store = S3FileStore(**s3_arguments(self, self.source))
        hook.keep_secret(lambda: store.access().secrets)
        declared = hook.declaration
        form = DATA_FORMAT.parse("data_format", self.data_format or Format())
        settings = SETTINGS.parse("settings", self.settings or {})
        request = InPlaceRequest(
            **parse_arguments(self, ("sql", "max_rows")),
            source=parse_source(SOURCE.parse("source", self.source)),
            data_format=form.format,
            compression=form.compression,
            structure=form.structure,
            settings={**form.settings, **settings} if isinstance(form, Csv) else settings,
            connection_settings=hook.connection_settings,
            timeout_seconds=timeout_of(self),
        )
        identity = identify(context, table="")
        self._kill = lambda: kill_queries(hook, declared.cluster, identity.generation_prefix)
        try:
            if identity.try_number > 1:
                self._kill()  # a dead worker has left a query running
            return query_in_place(hook, store, declared, request, identity.query_id(identity.try_number))
        finally:
            hook.close()

    def on_kill(self) -> None:
        """Stop the query."""
        self._kill()
