"""The operator that loads files from S3 into ClickHouse."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import XCOM_RETURN_KEY, AirflowSkipException, BaseOperator, conf

from airflow_provider_ch_s3.errors import LoadError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.base import TaskLoad
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.request import OnNoFiles
from airflow_provider_ch_s3.transfers.identity import identify
from airflow_provider_ch_s3.transfers.load_request import build_request, check_arguments
from airflow_provider_ch_s3.transfers.task_limits import limit_of
from airflow_provider_ch_s3.triggers.polling import BACKSTOP_SECONDS
from airflow_provider_ch_s3.tuning import SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class S3ToClickHouseOperator(BaseOperator):  # type: ignore[misc]
    """Load files from S3 into a ClickHouse table, on all nodes of the cluster.

    The rows go from S3 straight into ClickHouse (``INSERT INTO … SELECT … FROM s3Cluster(…)``); none passes
    through the worker. All settings are computed from the cluster's hardware and the files, each with a reason
    in the log. A retry takes over the query of an earlier try; it never starts a second one beside it.

    Exactly once: the rows go into a staging table first, are compared with the files, and are moved into the target
    as whole partitions. Whatever dies on the way, a retry continues from the state that the ledger in ClickHouse
    records.

    An ``execution_timeout`` also limits the INSERT on the servers. docs/tuning.md explains the computed settings.

    :param source: address of the files, ``s3://bucket/key``, or a list of addresses in one bucket; keys may contain
        the globs ``*``, ``**``, ``?``, ``{a,b}`` and ``{1..9}``. (templated)
    :param table: ``table`` or ``database.table``: a Distributed table, or a local one on every node. (templated)
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``). (templated)
    :param aws_conn_id: connection of type ``aws``, with which the worker lists the bucket and the servers read the
        files; None: worker and servers use their own roles. (templated)
    :param named_collection: named collection on the servers that contains the keys, instead of those of
        ``aws_conn_id``. (templated)
    :param role_arn: ARN of a role that the servers assume to read the files, as in ClickHouse Cloud; needs ClickHouse
        25.8 or later. (templated)
    :param load_mode: ``append``; ``replace_partitions`` replaces the partitions that the files have rows for,
        ``replace_where`` the rows that ``replace_where`` is true for, ``replace_table`` all rows.
    :param replace_where: flat SQL condition over the columns of the table, without ``now()`` and the like; it must be
        true for all new rows. (templated)
    :param staging: False loads straight into the table, at least once, for engines that cannot be staged.
    :param on_loaded_files: with ``append``, files (path and ETag) that the table already holds: ``skip`` them, or
        ``load`` them again.
    :param on_changed_files: with ``append``, files of which the table holds another version: ``fail``, ``load`` or
        ``skip``.
    :param on_partial_partitions: with ``replace_partitions``, a partition that also holds rows from elsewhere than
        these files: ``fail``, or ``replace`` those rows, too.
    :param materialized_views: views that the table feeds: ``refuse`` to load, or ``replay`` them from the staged rows
        (``append`` only).
    :param settle_before_commit: wait until the merges of the staged parts have finished, so that readers never see
        many small parts.
    :param on_no_files: if there is no file to load: ``fail``, ``skip`` the task and what depends on it, or
        ``succeed``. Nothing changes in any case, in the replacing modes either.
    :param min_files: number of files to load below which the load fails, before anything changes; without any,
        ``on_no_files`` applies. (templated)
    :param min_file_age: seconds (or a ``timedelta``) for which files must not have changed, by the store's own clock.
        ``append`` leaves younger files to the next load; where that would lose or double rows (the replacing modes,
        ``on_loaded_files="load"``, ``staging=False``), the load fails instead, so that Airflow tries again.
    :param expected_files: name of a file, such as ``_SUCCESS``, or a list of them, without which the load fails: in
        each folder with files, or above it, up to the folder in which the wildcards of ``source`` begin. They are not
        loaded themselves. (templated)
    :param skip_downstream_if_nothing_new: if nothing was loaded, the task ends as skipped instead of successful, and
        so do the tasks that depend on it.
    :param min_rows: number of rows below which the load fails, before the commit. (templated)
    :param deferrable: wait in the triggerer while the query runs.
    :param data_format: ClickHouse's name of the format, such as ``Parquet``; None: inferred from the file names.
        (templated)
    :param compression: ClickHouse's name of the compression, such as ``gz``; None: inferred from the file names.
        (templated)
    :param structure: columns of the files as ``name Type, …``; None: inferred from the files and the table.
        (templated)
    :param columns: columns of the table to load; None: all. (templated)
    :param select: column of the table → flat SQL expression over the columns of the files, which may name no table.
        (templated)
    :param where: flat SQL condition over the columns of the files; other rows are not loaded. (templated)
    :param settings: ClickHouse settings; they override those of the connection and the computed ones. (templated)
    :param poll_interval: seconds between two polls of the running query.
    :returns: a :class:`LoadReport` as a dict of plain values, through XCom.
    :raises ConfigError: if an argument or a field of the connection has a wrong value.
    :raises SourceError: if the files cannot be listed, read or understood, or do not fit each other.
    :raises TargetError: if the table is missing, differs between nodes, or cannot take the files.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    :raises PlanError: if the ClickHouse user's profile forbids a setting that a load needs.
    :raises ServerError: if ClickHouse refuses a statement, or the login.
    :raises LoadError: if the load failed, or its outcome cannot be determined.
    :raises SettleError: if the staged parts will never settle (``settle_before_commit``).
    """

    template_fields: Sequence[str] = (
        "source",
        "table",
        "clickhouse_conn_id",
        "aws_conn_id",
        "named_collection",
        "role_arn",
        "data_format",
        "compression",
        "structure",
        "columns",
        "select",
        "where",
        "settings",
        "replace_where",
        "min_files",
        "expected_files",
        "min_rows",
    )
    template_fields_renderers = {  # noqa: RUF012
        "select": "json",
        "settings": "json",
        "where": "sql",
        "replace_where": "sql",
        "structure": "sql",
    }
    ui_color = "#faff69"

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        table: str,
        clickhouse_conn_id: str = ClickHouseS3Hook.default_conn_name,
        aws_conn_id: str | None = "aws_default",
        named_collection: str = "",
        role_arn: str = "",
        load_mode: str = "append",
        replace_where: str = "",
        staging: bool = True,
        on_loaded_files: str = "skip",
        on_changed_files: str = "fail",
        on_partial_partitions: str = "fail",
        materialized_views: str = "refuse",
        settle_before_commit: bool = False,
        on_no_files: str = "fail",
        min_files: int | str = 1,
        min_file_age: float | datetime.timedelta = 0,
        expected_files: str | Sequence[str] | None = None,
        skip_downstream_if_nothing_new: bool = False,
        min_rows: int | str = 1,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        data_format: str | None = None,
        compression: str | None = None,
        structure: str | None = None,
        columns: Sequence[str] | None = None,
        select: Mapping[str, str] | None = None,
        where: str = "",
        settings: Mapping[str, SettingValue] | None = None,
        poll_interval: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.table = table
        self.clickhouse_conn_id = clickhouse_conn_id
        self.aws_conn_id = aws_conn_id
        self.named_collection = named_collection
        self.role_arn = role_arn
        self.load_mode = load_mode
        self.replace_where = replace_where
        self.staging = staging
        self.on_loaded_files = on_loaded_files
        self.on_changed_files = on_changed_files
        self.on_partial_partitions = on_partial_partitions
        self.materialized_views = materialized_views
        self.settle_before_commit = settle_before_commit
        self.on_no_files = on_no_files
        self.min_files = min_files
        self.min_file_age = min_file_age
        self.expected_files = expected_files
        self.skip_downstream_if_nothing_new = skip_downstream_if_nothing_new
        self.min_rows = min_rows
        self.deferrable = deferrable
        self.data_format = data_format
        self.compression = compression
        self.structure = structure
        self.columns = columns
        self.select = select
        self.where = where
        self.settings = settings
        self.poll_interval = poll_interval
        self._load: TaskLoad | None = None

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Load and return the report, or submit the load and wait for it in the triggerer.

        :raises ChS3Error: as described for the class.
        :raises AirflowSkipException: if there was nothing to load, and the arguments ask for a skip.
        """
        with self._loading(context) as load:
            started = load.start()
            if self.deferrable and isinstance(started, str):
                self._defer(load, started)
            return self._result(context, started if isinstance(started, LoadReport) else load.complete(started))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Verify and commit what the query staged.

        :raises LoadError: if the query took too long; it is then stopped.
        :raises AirflowSkipException: as :meth:`execute`.
        """
        with self._loading(context) as load:
            # The triggerer may have been down when the query ended in time.
            if event["status"] == "timeout" and load.is_running(event["query_id"]):
                load.kill()
                raise LoadError(
                    f"{event['query_id']} ran longer than execution_timeout={self.execution_timeout} allows, and was"
                    f" stopped; {load.after_kill}: raise execution_timeout, or load fewer files at a time"
                )
            return self._result(context, load.complete(event["query_id"]))

    def on_kill(self) -> None:
        """Stop the query on all nodes, and leave nothing half done."""
        if self._load is not None:
            self._load.kill()

    def _result(self, context: Context, report: LoadReport) -> dict[str, Any]:
        is_without_files = report.is_nothing_new and not report.files_skipped
        if (report.is_nothing_new and self.skip_downstream_if_nothing_new) or (
            is_without_files and self.on_no_files == OnNoFiles.SKIP.value
        ):
            # A skipped task returns nothing, but what runs all the same (none_failed) may want the report.
            if self.do_xcom_push:
                context["ti"].xcom_push(key=XCOM_RETURN_KEY, value=report.as_dict())
            raise AirflowSkipException(str(report))
        return report.as_dict()

    @contextmanager
    def _loading(self, context: Context) -> Iterator[TaskLoad]:
        # Imported here, because Airflow parses DAG files every few seconds, and parsing needs none of this.
        from airflow_provider_ch_s3.hooks.s3_file_store import S3FileStore
        from airflow_provider_ch_s3.load.direct import DirectLoadRun
        from airflow_provider_ch_s3.load.staged import LoadRun

        check_arguments(self)
        hook = ClickHouseS3Hook(clickhouse_conn_id=self.clickhouse_conn_id)
        store = S3FileStore(
            aws_conn_id=self.aws_conn_id, named_collection=self.named_collection, role_arn=self.role_arn
        )
        hook.keep_secret(store.secrets)
        kind: type[TaskLoad] = LoadRun if self.staging else DirectLoadRun
        identity = identify(context, table=self.table)
        self._load = kind(
            client=hook,
            store=store,
            declaration=hook.declaration,
            request=build_request(self, hook.connection_settings, limit_of(self, is_mapped=identity.map_index >= 0)),
            identity=identity,
            poll_seconds=self.poll_interval,
        )
        try:
            yield self._load
        finally:
            hook.close()

    def _defer(self, load: TaskLoad, query_id: str) -> None:
        from airflow_provider_ch_s3.triggers.load import LoadTrigger, dump_identity

        seconds = self.execution_timeout.total_seconds() if self.execution_timeout else None
        self.defer(
            trigger=LoadTrigger(
                clickhouse_conn_id=self.clickhouse_conn_id,
                cluster=load.cluster.name,
                query_id=query_id,
                identity=dump_identity(load.identity),
                poll_interval=self.poll_interval,
                deadline=None if seconds is None else time.time() + seconds,
            ),
            method_name="execute_complete",
            timeout=None if seconds is None else datetime.timedelta(seconds=seconds + BACKSTOP_SECONDS),
        )
