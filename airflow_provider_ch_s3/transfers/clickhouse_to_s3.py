"""The operator that exports rows of ClickHouse to files in S3."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperator, conf

from airflow_provider_ch_s3.arguments import NamedCollection, OwnKeys, Role
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.arguments import check_flag, check_seconds
from airflow_provider_ch_s3.common.declared import EXPRESSIONS, FLAG, NAME, SETTINGS, SQL, TEXT, Kind
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.export.request import ExportRequest, parse_destination
from airflow_provider_ch_s3.transfers.deferral import defer_until_over, new_deadline
from airflow_provider_ch_s3.transfers.failures import fails_plainly
from airflow_provider_ch_s3.transfers.task import S3_KINDS, identify, limit_of, s3_arguments, timeout_of
from airflow_provider_ch_s3.transfers.templates import RendersArguments, parse_arguments, renderers_of
from airflow_provider_ch_s3.tuning import SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_ch_s3.export.run import Export


_OF_REQUEST = ("query", "table", "data_format", "compression", "overwrite")


class ClickHouseToS3Operator(RendersArguments, BaseOperator):  # type: ignore[misc]
    """Export the rows of a query or a table to files in S3, or in an S3-compatible store.

    The rows go from ClickHouse straight into the store (``INSERT INTO FUNCTION s3(…) SELECT …``); no row passes
    through the worker.

    Exactly once: the folder is complete or absent. The names of the files tell the attempt. Once the rows in the
    files have been counted, a manifest names the files (``_manifest.json``), and last of all ``_SUCCESS`` is written.
    A retry takes over the query of an earlier try, and files of abandoned attempts are removed.

    :param destination: folder for the files, ``s3://bucket/folder/``.
    :param query: the SELECT whose rows are exported; or give ``table``.
    :param table: ``table`` or ``database.table``, to export all rows: a Distributed table, or a local table. If the
        connection names a cluster, a local table is read from one replica of each shard.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``).
    :param aws_conn_id: connection of type ``aws``: the servers write the files, and the worker the manifest, with
        this connection; None: worker and servers use their own roles.
    :param credentials: the keys with which the servers write the files: ``connection``, the keys of ``aws_conn_id``;
        ``NamedCollection(name)``; or ``Role(arn)``.
    :param requester_pays: agree to pay for the requests, as the owner of the bucket asks of readers: worker and
        servers send ``x-amz-request-payer`` then.
    :param data_format: ClickHouse's name of the format; ClickHouse must also read the format, because the rows are
        counted.
    :param compression: of text formats: ``gz``, ``zst``, ``lz4``, ``xz``, ``br`` or ``bz2``; '' for none.
    :param partition_by: name of a folder → flat SQL expression over the exported columns: ``{'dt': 'toDate(time)'}``
        writes a file into each of ``dt=2024-01-31/``, ``dt=2024-02-01/`` and so on.
    :param overwrite: replace what another export has put into the folder; the old files stay until the new files are
        complete.
    :param settings: ClickHouse settings; they override the connection's settings and computed settings.
    :param deferrable: wait in the triggerer while the query runs.
    :param poll_interval: seconds between two polls of the running query. If not deferred, this is the maximum: the
        first polls come sooner.
    :returns: an :class:`ExportReport` as a dict of plain values, through XCom.
    :raises ConfigError: if an argument or a field of the connection has a wrong value.
    :raises SourceError: if the worker cannot read, list or write in the folder.
    :raises TargetError: if the table is missing, the server refuses the query, or the folder holds something else.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    :raises PlanError: if the ClickHouse user's profile forbids a setting that an export needs.
    :raises ServerError: if ClickHouse refuses a statement, or the login.
    :raises LoadError: if the export failed, or the files do not hold the written rows.
    :raises AirflowFailException: instead of an error above, if no retry can change the error, such as wrong
        arguments; has the error as its context.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "destination": TEXT,
        "query": SQL,
        "table": TEXT,
        "clickhouse_conn_id": NAME,
        **S3_KINDS,
        "data_format": TEXT,
        "compression": TEXT,
        "partition_by": EXPRESSIONS,
        "overwrite": FLAG,
        "settings": SETTINGS,
    }
    template_fields: Sequence[str] = tuple(kinds)
    template_fields_renderers = renderers_of(kinds)
    ui_color = "#faff69"
    timing: Timing = REAL_TIME

    def __init__(
        self,
        *,
        destination: str,
        query: str = "",
        table: str = "",
        clickhouse_conn_id: str = DEFAULT_CONNECTION,
        aws_conn_id: str | None = "aws_default",
        credentials: str | NamedCollection | Role | Mapping[str, Any] = OwnKeys.name,
        requester_pays: bool = False,
        data_format: str = "Parquet",
        compression: str = "",
        partition_by: Mapping[str, str] | None = None,
        overwrite: bool = False,
        settings: Mapping[str, SettingValue] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poll_interval: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.destination = destination
        self.query = query
        self.table = table
        self.clickhouse_conn_id = clickhouse_conn_id
        self.aws_conn_id = aws_conn_id
        self.credentials = credentials
        self.requester_pays = requester_pays
        self.data_format = data_format
        self.compression = compression
        self.partition_by = partition_by
        self.overwrite = overwrite
        self.settings = settings
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self._export: Export | None = None
        check_flag("deferrable", deferrable)
        check_seconds("poll_interval", poll_interval, is_positive=True)
        self.check_as_written(self.kinds)
        names = (*_OF_REQUEST, "destination", "partition_by", "settings")
        if all(getattr(self, name) is None or self.is_as_written(name) for name in names):
            self._build_request({}).check()

    @fails_plainly
    def execute(self, context: Context) -> dict[str, Any] | None:
        """Export and return the report, or submit the query and wait for it in the triggerer.

        :raises ChS3Error: as described for the class.
        """
        from airflow_provider_ch_s3.triggers.export import ExportTrigger

        with self._exporting(context) as export:
            reached = export.start() if self.deferrable else export.run()
            if not isinstance(reached, str):
                return reached.as_dict()
            defer_until_over(
                self,
                ExportTrigger,
                reached,
                cluster=export.cluster.name,
                identity=export.identity,
                deadline=new_deadline(self),
            )
            return None

    @fails_plainly
    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Count the rows in the files, and complete the folder.

        :raises LoadError: if the query took too long; the query is then stopped.
        """
        with self._exporting(context) as export:
            # The triggerer may have been down when the query ended in time.
            if event["status"] == "timeout" and export.is_running(event["query_id"]):
                export.kill()
                raise LoadError(
                    "execution-timeout",
                    f"{event['query_id']} ran longer than the task's execution_timeout of {self.execution_timeout}"
                    " allows, and was stopped; nothing is left in the folder: raise the limit, or export less at a"
                    " time",
                )
            return export.complete(event["query_id"]).as_dict()

    def on_kill(self) -> None:
        """Stop the query on all nodes, and remove the query's files."""
        if self._export is not None:
            self._export.kill()

    def _build_request(self, connection_settings: Mapping[str, SettingValue]) -> ExportRequest:
        """:raises ConfigError: for the first wrong argument."""
        given = parse_arguments(self, _OF_REQUEST)
        return ExportRequest(
            **{**given, "query": given["query"].strip().removesuffix(";")},
            destination=parse_destination(TEXT.parse("destination", self.destination)),
            partition_by=EXPRESSIONS.parse("partition_by", self.partition_by or {}),
            settings=SETTINGS.parse("settings", self.settings or {}),
            connection_settings=connection_settings,
            timeout_seconds=timeout_of(self),
        )

    @contextmanager
    def _exporting(self, context: Context) -> Iterator[Export]:
        # Imported here, because Airflow parses DAG files every few seconds, and parsing needs none of this.
        from airflow_provider_ch_s3.export.run import Export
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
        from airflow_provider_ch_s3.stores.s3 import S3ExportStore

        hook = ClickHouseS3Hook(clickhouse_conn_id=NAME.parse("clickhouse_conn_id", self.clickhouse_conn_id))
        store = S3ExportStore(**s3_arguments(self, self.destination))
        hook.keep_secret(lambda: store.access().secrets)
        request = self._build_request(hook.connection_settings)
        identity = identify(context, table=str(request.destination))
        self._export = Export(
            client=hook,
            store=store,
            declaration=hook.declaration,
            request=dataclasses.replace(request, limit=limit_of(self, is_mapped=identity.map_index >= 0)),
            identity=identity,
            timing=dataclasses.replace(self.timing, poll_seconds=self.poll_interval),
        )
        try:
            yield self._export
        finally:
            hook.close()
