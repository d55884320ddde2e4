"""What the operators have in common that load files from an object store into ClickHouse."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    XCOM_RETURN_KEY,
    AirflowSkipException,
    BaseOperator,
    conf,
)

from airflow_provider_ch_s3.assets.clickhouse import describe_in_events
from airflow_provider_ch_s3.clickhouse.statement import shorten_lines
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import CheckFailedError, ChS3Error, LoadError
from airflow_provider_ch_s3.files.addresses import Scheme, SourcePattern, parse_source
from airflow_provider_ch_s3.files.csv_dialect import CsvDialect
from airflow_provider_ch_s3.files.source import MAX_LISTED_FILES
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.load.base import TaskLoad
from airflow_provider_ch_s3.load.report import LoadReport
from airflow_provider_ch_s3.request import OnNoFiles
from airflow_provider_ch_s3.table.new_table import CreateTable
from airflow_provider_ch_s3.table.row_check import Check
from airflow_provider_ch_s3.transfers.announcements import LoadLineage, emit_check_metrics, emit_metrics
from airflow_provider_ch_s3.transfers.deferral import defer_until_over, new_deadline
from airflow_provider_ch_s3.transfers.failures import fails_plainly
from airflow_provider_ch_s3.transfers.links import ClickHouseLink, LoadReportLink, build_clickhouse_link
from airflow_provider_ch_s3.transfers.load_request import build_request, check_arguments
from airflow_provider_ch_s3.transfers.task import identify, limit_of
from airflow_provider_ch_s3.tuning import SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

log = get_log(__name__)


class FilesToClickHouseOperator(BaseOperator):  # type: ignore[misc]
    """Load files into a ClickHouse table, on all nodes of the cluster; the base of one operator for each store.

    The rows go from the store straight into ClickHouse (``INSERT INTO … SELECT … FROM s3Cluster(…)``, for example);
    none passes through the worker. All settings are computed from the cluster's hardware and the files, each with a
    reason in the log. A retry takes over the query of an earlier try; it starts no second one while the rows of the
    first may still count.

    Exactly once: the rows go into a staging table first, are compared with the files, and are moved into the target
    as whole partitions. Whatever dies on the way, a retry continues from the state that the ledger in ClickHouse
    records.

    An ``execution_timeout`` also limits the INSERT on the servers. ``ch-s3 docs tuning`` explains the computed
    settings.

    :param table: ``table`` or ``database.table``: a Distributed table, or a local one on every node. (templated)
    :param create_table: if the table does not exist, create it from the files on every node: ``"auto"``, or
        ``CreateTable(order_by=…, …)``, or a dict of its fields. An existing table is never changed by it.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``). (templated)
    :param load_mode: ``append``; ``replace_partitions`` replaces the partitions that the files have rows for,
        ``replace_where`` the rows that ``replace_where`` is true for, ``replace_table`` all rows, ``merge`` older
        rows with the keys of new ones.
    :param replace_where: flat SQL condition over the columns of the table, without ``now()`` and the like; it must be
        true for all new rows. (templated)
    :param merge_key: with ``merge``, columns of the table: rows with the same values there are versions of one row.
        (templated)
    :param merge_version: with ``merge``, the column whose greater value is the newer row, of the files and of the
        table; without it the rows of the files are newer, and each key may be in the files once. (templated)
    :param merge_deleted: with ``merge``, flat SQL condition over the columns of the files, such as ``op = 'D'``: the
        key of such a row is deleted, if no row of it is newer. (templated)
    :param merge_duplicates: with ``merge``, a key of the files that the table holds more than once: ``refuse`` it, or
        ``collapse`` its rows to one.
    :param max_rewritten_bytes: with ``merge``, fail before the commit if the partitions with rows to be replaced are
        larger; None: any size. (templated)
    :param staging: False loads straight into the table, at least once, for engines that cannot be staged.
    :param on_loaded_files: with ``append``, files (path and ETag) that the table already holds: ``skip`` them, or
        ``load`` them again.
    :param on_changed_files: with ``append``, files that the table holds in another version: ``fail``, ``load`` or
        ``skip`` them, or ``replace`` the rows of the other version, which ``provenance`` tells from others.
    :param on_missing_files: with ``on_changed_files="replace"``, the rows of files that ``source`` no longer has:
        ``keep`` or ``delete`` them. Then ``source`` has wildcards only after its last slash.
    :param on_partial_partitions: with ``replace_partitions``, a partition that also holds rows from elsewhere than
        these files: ``fail``, or ``replace`` those rows, too.
    :param materialized_views: views that the table feeds: ``refuse`` to load, or ``replay`` them from the staged rows
        (``append`` only).
    :param list_after_loaded: with ``append``, for keys that sort by time: list only those after the last one that the
        table holds of this source, instead of years of them. A file that arrives later with an earlier key is not
        found.
    :param commit: with ``append``, more files than one query takes are loaded ``chunk`` by chunk, each committed by
        itself, so that a retry continues with the chunk that failed; ``end`` loads all files with one query, as the
        replacing modes and ``staging=False`` always do.
    :param max_files_per_chunk: number of files, at most 10,000, at which a chunk is full. (templated)
    :param max_bytes_per_chunk: bytes of files, as they are stored, at which a chunk is full; None: what the cluster
        loads in ten minutes. (templated)
    :param after_load: what happens to the files when their rows are committed: ``keep``, ``tag`` (``ch-s3-load``,
        with the id of the query), ``move`` (to ``move_to``) or ``delete`` them; only files that this task loaded, and
        only if they have not changed since.
    :param move_to: folder of the same bucket or container for ``move``, outside of ``source``; each INSERT (each
        chunk of a load) has a folder of its own in it, named by its query id. (templated)
    :param settle_before_commit: wait until the merges of the staged parts have finished, so that readers never see
        many small parts.
    :param on_new_columns: columns of the files that the table lacks: ``fail``, ``ignore`` them, or ``add`` them to
        the table on every node, before anything is staged. Decided per chunk: if one fails, those before it stay in
        the table.
    :param on_missing_columns: columns of the table that files lack: ``fail``, or load the ``default``. Decided per
        chunk, in which a column may be missing from all files or from some.
    :param on_bad_rows: rows of CSV and JSONEachRow files that cannot be parsed, or have a value that does not fit its
        column: ``fail``, or ``reject`` them: they are committed to ``<table>_rejected`` together with the others.
    :param max_bad_rows: with ``reject``, more such rows fail the load; in chunks, the chunk that has them.
        (templated)
    :param max_bad_ratio: with ``reject``, a greater share of all rows (0 to 1) fails the load; in chunks, of the rows
        of a chunk. (templated)
    :param on_no_files: if there is no file to load: ``fail``, ``skip`` the task and what depends on it, or
        ``succeed``. Nothing changes in any case, in the replacing modes either.
    :param min_files: number of matching files below which the load fails, before anything changes; files that the
        table already holds count, files that are too young do not. Without any, ``on_no_files`` applies. (templated)
    :param min_file_age: seconds (or a ``timedelta``) for which files must not have changed, by the store's own clock.
        ``append`` leaves younger files to the next load; where that would lose or double rows (the replacing modes,
        ``on_loaded_files="load"``, ``staging=False``), the load fails instead, so that Airflow tries again.
    :param expected_files: name of a file, such as ``_SUCCESS``, or a list of them, without which the load fails: in
        each folder with files, or above it, up to the folder in which the wildcards of ``source`` begin. They are not
        loaded themselves. (templated)
    :param skip_downstream_if_nothing_new: if nothing was loaded, the task ends as skipped instead of successful, and
        so do the tasks that depend on it.
    :param min_rows: number of rows below which the load fails, before the commit. In chunks, the last chunk checks
        the sum: if it fails, those before it stay in the table. (templated)
    :param checks: name → flat SQL condition that aggregates the columns of the table, such as
        ``countIf(fare < 0) = 0``, or ``Check(…, on_failure="warn")``, or a dict of its fields; or
        ``Expect.rows(within=0.5)``, which compares with earlier loads of the task. All staged rows are checked before
        the commit; if a condition is false or NULL, nothing is committed, and Airflow does not retry. In chunks, each
        chunk is checked by itself. (templated)
    :param validate_only: plan, stage, verify and check the rows as a load does, return its report, and drop them: the
        table stays as it is.
    :param keep_staged_seconds: seconds (or a ``timedelta``) for which the staged rows are kept if a check fails, so
        that somebody can look at them: the error names their table. The first load into the target after that drops
        it.
    :param deferrable: wait in the triggerer while the query runs.
    :param data_format: ClickHouse's name of the format, such as ``Parquet``; None: inferred from the file names.
        (templated)
    :param compression: ClickHouse's name of the compression, such as ``gz``; None: inferred from the file names.
        (templated)
    :param csv_dialect: how CSV files are written: ``CsvDialect(delimiter=";", encoding="latin-1", …)``, or a dict of
        its fields; None: as ClickHouse finds them, with a delimiter guessed if commas separate nothing.
    :param structure: columns of the files as ``name Type, …``; None: inferred from the files and the table.
        (templated)
    :param columns: columns of the table to load; None: all. (templated)
    :param select: column of the table → flat SQL expression over the columns of the files, which may name no table.
        (templated)
    :param provenance: column of the table → what the load writes there: ``path``, the file; ``row``, its row there,
        from 1; ``time``, when its server began to load it; ``load``, the query id of the INSERT.
    :param where: flat SQL condition over the columns of the files; other rows are not loaded. (templated)
    :param settings: ClickHouse settings; they override those of the connection and the computed ones. (templated)
    :param poll_interval: seconds between two polls of the running query; if not deferred, at most, since the first
        polls come sooner.
    :returns: a :class:`LoadReport` as a dict of plain values, through XCom.
    :raises ConfigError: if an argument or a field of the connection has a wrong value.
    :raises SourceError: if the files cannot be listed, read or understood, or do not fit each other.
    :raises TargetError: if the table is missing, differs between nodes, or cannot take the files.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    :raises PlanError: if the ClickHouse user's profile forbids a setting that a load needs.
    :raises ServerError: if ClickHouse refuses a statement, or the login.
    :raises LoadError: if the load failed, or its outcome cannot be determined.
    :raises SettleError: if the staged parts will never settle (``settle_before_commit``).
    :raises AirflowFailException: in the place of each of these that no retry can change: wrong arguments, missing
        rights, types and values that do not fit, checks that are not fulfilled. It has the error as its context.
    """

    template_fields: Sequence[str] = (
        "source",
        "table",
        "clickhouse_conn_id",
        "data_format",
        "compression",
        "structure",
        "columns",
        "select",
        "where",
        "settings",
        "replace_where",
        "merge_key",
        "merge_version",
        "merge_deleted",
        "max_rewritten_bytes",
        "min_files",
        "expected_files",
        "min_rows",
        "checks",
        "max_files_per_chunk",
        "max_bytes_per_chunk",
        "move_to",
        "max_bad_rows",
        "max_bad_ratio",
        "sql",
    )
    template_fields_renderers = {  # noqa: RUF012
        "select": "json",
        "settings": "json",
        "checks": "json",
        "where": "sql",
        "replace_where": "sql",
        "merge_deleted": "sql",
        "structure": "sql",
        "sql": "sql",
    }
    operator_extra_links = (LoadReportLink(), ClickHouseLink())
    ui_color = "#faff69"
    timing: Timing = REAL_TIME
    scheme: ClassVar[Scheme]

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        table: str,
        create_table: str | CreateTable | Mapping[str, Any] | None = None,
        clickhouse_conn_id: str = ClickHouseS3Hook.default_conn_name,
        load_mode: str = "append",
        replace_where: str = "",
        merge_key: Sequence[str] | None = None,
        merge_version: str = "",
        merge_deleted: str = "",
        merge_duplicates: str = "refuse",
        max_rewritten_bytes: int | str | None = None,
        staging: bool = True,
        on_loaded_files: str = "skip",
        on_changed_files: str = "fail",
        on_missing_files: str = "keep",
        on_partial_partitions: str = "fail",
        materialized_views: str = "refuse",
        list_after_loaded: bool = False,
        commit: str = "chunk",
        max_files_per_chunk: int | str = MAX_LISTED_FILES,
        max_bytes_per_chunk: int | str | None = None,
        after_load: str = "keep",
        move_to: str = "",
        settle_before_commit: bool = False,
        on_new_columns: str = "fail",
        on_missing_columns: str = "fail",
        on_bad_rows: str = "fail",
        max_bad_rows: int | str | None = None,
        max_bad_ratio: float | str | None = None,
        on_no_files: str = "fail",
        min_files: int | str = 1,
        min_file_age: float | datetime.timedelta = 0,
        expected_files: str | Sequence[str] | None = None,
        skip_downstream_if_nothing_new: bool = False,
        min_rows: int | str = 1,
        checks: Mapping[str, str | Check | Mapping[str, Any]] | None = None,
        validate_only: bool = False,
        keep_staged_seconds: float | datetime.timedelta = 0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        data_format: str | None = None,
        compression: str | None = None,
        csv_dialect: CsvDialect | Mapping[str, Any] | None = None,
        structure: str | None = None,
        columns: Sequence[str] | None = None,
        select: Mapping[str, str] | None = None,
        provenance: Mapping[str, str] | None = None,
        where: str = "",
        settings: Mapping[str, SettingValue] | None = None,
        poll_interval: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.table = table
        self.create_table = create_table
        self.clickhouse_conn_id = clickhouse_conn_id
        self.load_mode = load_mode
        self.replace_where = replace_where
        self.merge_key = merge_key
        self.merge_version = merge_version
        self.merge_deleted = merge_deleted
        self.merge_duplicates = merge_duplicates
        self.max_rewritten_bytes = max_rewritten_bytes
        self.staging = staging
        self.on_loaded_files = on_loaded_files
        self.on_changed_files = on_changed_files
        self.on_missing_files = on_missing_files
        self.on_partial_partitions = on_partial_partitions
        self.materialized_views = materialized_views
        self.list_after_loaded = list_after_loaded
        self.commit = commit
        self.max_files_per_chunk = max_files_per_chunk
        self.max_bytes_per_chunk = max_bytes_per_chunk
        self.after_load = after_load
        self.move_to = move_to
        self.settle_before_commit = settle_before_commit
        self.on_new_columns = on_new_columns
        self.on_missing_columns = on_missing_columns
        self.on_bad_rows = on_bad_rows
        self.max_bad_rows = max_bad_rows
        self.max_bad_ratio = max_bad_ratio
        self.on_no_files = on_no_files
        self.min_files = min_files
        self.min_file_age = min_file_age
        self.expected_files = expected_files
        self.skip_downstream_if_nothing_new = skip_downstream_if_nothing_new
        self.min_rows = min_rows
        self.checks = checks
        self.validate_only = validate_only
        self.keep_staged_seconds = keep_staged_seconds
        self.deferrable = deferrable
        self.data_format = data_format
        self.compression = compression
        self.csv_dialect = csv_dialect
        self.structure = structure
        self.columns = columns
        self.select = select
        self.provenance = provenance
        self.where = where
        self.settings = settings
        self.poll_interval = poll_interval
        self.sql = ""  # no argument: shown among the rendered fields when the task has ended
        self.clickhouse_link = ""
        self._load: TaskLoad | None = None
        self._lineage: LoadLineage | None = None

    def open_store(self) -> ObjectStore:
        """Open the store that the files are in; import it here: Airflow parses DAG files every few seconds.

        :raises ConfigError: if the arguments or the connection are wrong.
        """
        raise NotImplementedError

    def read_source(self, store: ObjectStore) -> SourcePattern:
        """Parse ``source``.

        :param store: the store that the files are in.
        :raises ConfigError: if an address is wrong, or the connection of the store.
        """
        return dataclasses.replace(parse_source(self.source, self.scheme), account=store.account)

    @fails_plainly
    def execute(self, context: Context) -> dict[str, Any] | None:
        """Load and return the report, or submit the load and wait for it in the triggerer.

        :raises ChS3Error: as described for the class; AirflowFailException in its place if no retry can change it.
        :raises AirflowSkipException: if there was nothing to load, and the arguments ask for a skip.
        """
        with self._loading(context) as load:
            reached = load.start() if self.deferrable else load.run()
            return self._result_of(context, load, reached, new_deadline(self))

    @fails_plainly
    def execute_complete(self, context: Context, event: Mapping[str, Any], sql: str = "") -> dict[str, Any] | None:
        """Verify and commit what the query staged, and submit the next chunk if there is one.

        :param sql: the INSERT that was submitted, to be shown; `airflow dags test` does not pass it on.
        :raises LoadError: if the query took too long; it is then stopped.
        :raises AirflowSkipException: as :meth:`execute`.
        """
        self._show(sql)
        with self._loading(context) as load:
            # The triggerer may have been down when the query ended in time.
            if event["status"] == "timeout" and load.is_running(event["query_id"]):
                load.kill()
                raise LoadError(
                    f"{event['query_id']} ran longer than execution_timeout={self.execution_timeout} allows, and was"
                    f" stopped; {load.after_kill}: raise execution_timeout, or load fewer files at a time"
                )
            return self._result_of(context, load, load.complete(event["query_id"]), event["deadline"])

    def on_kill(self) -> None:
        """Stop the query on all nodes, and leave nothing half done."""
        if self._load is not None:
            self._load.kill()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Tell OpenLineage what was loaded into which table, or which checks failed; None of other failures."""
        return self._lineage.build() if self._lineage else None

    def _result_of(
        self, context: Context, load: TaskLoad, reached: LoadReport | str, deadline: float | None
    ) -> dict[str, Any] | None:
        if isinstance(reached, LoadReport):
            return self._result(context, load, reached)
        from airflow_provider_ch_s3.triggers.load import LoadTrigger

        defer_until_over(
            self,
            LoadTrigger,
            reached,
            cluster=load.cluster.name,
            identity=load.identity,
            deadline=deadline,
            kwargs={"sql": load.sql or self.sql},
        )
        return None

    def _result(self, context: Context, load: TaskLoad, report: LoadReport) -> dict[str, Any]:
        if not report.is_nothing_new:  # which the load itself has logged in the same words
            log.info("%s", report.outcome)
        if not self.validate_only:
            self._tell(context, load, report)
        is_without_files = report.is_nothing_new and not report.files_skipped
        if (report.is_nothing_new and self.skip_downstream_if_nothing_new) or (
            is_without_files and self.on_no_files == OnNoFiles.SKIP.value
        ):
            # A skipped task returns nothing, but what runs all the same (none_failed) may want the report.
            if self.do_xcom_push:
                context["ti"].xcom_push(key=XCOM_RETURN_KEY, value=report.as_dict())
            raise AirflowSkipException(str(report))
        return report.as_dict()

    def _tell(self, context: Context, load: TaskLoad, report: LoadReport) -> None:
        """Tell assets, OpenLineage and metrics what was loaded."""
        if load.table_name is not None:
            describe_in_events(context, self.outlets, load.table_name, report)
            self._lineage = LoadLineage.of(load, load.table_name, report, sql=load.sql or self.sql)
        emit_metrics(report)

    @contextmanager
    def _loading(self, context: Context) -> Iterator[TaskLoad]:
        # Imported here, because Airflow parses DAG files every few seconds, and parsing needs none of this.
        from airflow_provider_ch_s3.load.direct import DirectLoadRun
        from airflow_provider_ch_s3.load.staged import LoadRun

        check_arguments(self)
        hook = ClickHouseS3Hook(clickhouse_conn_id=self.clickhouse_conn_id)
        store = self.open_store()
        hook.keep_secret(lambda: store.access().secrets)
        kind: type[TaskLoad] = LoadRun if self.staging else DirectLoadRun
        identity = identify(context, table=self.table)
        self._load = kind(
            client=hook,
            store=store,
            declaration=hook.declaration,
            request=build_request(
                self,
                self.read_source(store),
                hook.connection_settings,
                limit_of(self, is_mapped=identity.map_index >= 0),
            ),
            identity=identity,
            timing=dataclasses.replace(self.timing, poll_seconds=self.poll_interval),
        )
        self.clickhouse_link = build_clickhouse_link(self._load)
        try:
            yield self._load
        except ChS3Error as error:
            if not self.validate_only:
                self._tell_failed(self._load, error)
            raise
        finally:
            hook.close()
            self._show(self._load.sql)

    def _tell_failed(self, load: TaskLoad, error: ChS3Error) -> None:
        """Tell metrics and OpenLineage what a failed load leaves in the table, and what its checks found."""
        results = error.results if isinstance(error, CheckFailedError) else ()
        if load.left is not None:
            emit_metrics(load.left)
        emit_check_metrics(results, table=self.table, load_mode=self.load_mode)
        if load.table_name is not None and (load.left is not None or results):
            report = load.left or LoadReport(query_id="", table=self.table, partitions={})
            found = [dataclasses.asdict(result) for result in results]
            report = dataclasses.replace(report, row_checks=found or report.row_checks)
            self._lineage = LoadLineage.of(load, load.table_name, report, sql=load.sql or self.sql)

    def _show(self, sql: str) -> None:
        """Have Airflow store the rendered fields once more when the task ends, with the INSERT."""
        if sql:
            is_cut_off = len(sql) > conf.getint("core", "max_templated_field_length", fallback=4096)
            self.sql = shorten_lines(sql) if is_cut_off else sql
            self.overwrite_rtif_after_execution = True
