"""What the operators for loads of files from an object store into ClickHouse have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    XCOM_RETURN_KEY,
    AirflowSkipException,
    BaseOperator,
    conf,
)

from airflow_provider_ch_s3.arguments import (
    Arrivals,
    AtOnce,
    Check,
    Checks,
    Chunks,
    Columns,
    CreateTable,
    Csv,
    Delete,
    Fail,
    Format,
    Held,
    Keep,
    Move,
    OnNothing,
    Reject,
    Tag,
)
from airflow_provider_ch_s3.clickhouse.statement import shorten_lines
from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.arguments import check_flag, check_seconds
from airflow_provider_ch_s3.common.declared import NAME, TEXT, Kind, declared_fields, parse_field
from airflow_provider_ch_s3.common.timing import REAL_TIME, Timing
from airflow_provider_ch_s3.contradictions import check_request
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import CheckFailedError, ChS3Error, ConfigError, LoadError
from airflow_provider_ch_s3.files.addresses import SOURCE, Scheme, Source, parse_source
from airflow_provider_ch_s3.files.stores import ObjectStore
from airflow_provider_ch_s3.modes import Append, Mode
from airflow_provider_ch_s3.request import LoadRequest
from airflow_provider_ch_s3.transfers.deferral import defer_until_over, new_deadline
from airflow_provider_ch_s3.transfers.failures import fails_plainly
from airflow_provider_ch_s3.transfers.links import ClickHouseLink, LoadReportLink, build_clickhouse_link
from airflow_provider_ch_s3.transfers.task import identify, limit_of, timeout_of
from airflow_provider_ch_s3.transfers.templates import RendersArguments, declared_kinds, renderers_of
from airflow_provider_ch_s3.tuning import LoadLimit, SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.load.base import Load
    from airflow_provider_ch_s3.report import LoadReport
    from airflow_provider_ch_s3.transfers.announcements import LoadLineage

log = get_log(__name__)


class FilesToClickHouseOperator(RendersArguments, BaseOperator):  # type: ignore[misc]
    """Load files into a ClickHouse table, on all nodes of the cluster; the base of one operator for each store.

    The rows go from the store straight into ClickHouse (``INSERT INTO … SELECT … FROM s3Cluster(…)``, for example);
    no row passes through the worker. All settings are computed from the cluster's hardware and the files, each with a
    reason in the log. A retry takes over the query of an earlier try, and starts no second query while the rows of
    the first may still count.

    Exactly once: the rows go into a staging table first, are compared with the files, and are moved into the target
    as whole partitions. If a process, a node or a connection dies on the way, a retry continues from the state in the
    ledger in ClickHouse. An ``execution_timeout`` also limits the INSERT on the servers. ``ch-s3 docs tuning``
    explains the computed settings. Nine of ten DAGs need no more than ``source``, ``table``, ``mode``,
    ``create_table`` and ``arrivals``.

    The remaining arguments are described in :class:`LoadRequest`.

    :param source: addresses of the files.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``).
    :param deferrable: wait in the triggerer while the query runs.
    :param poll_interval: seconds between two polls of the running query. If not deferred, this is the maximum: the
        first polls come sooner.
    :returns: a :class:`LoadReport` as a dict of plain values, through XCom.
    :raises ConfigError: if an argument or a field of the connection has a wrong value.
    :raises SourceError: if the files cannot be listed, read or understood, or do not fit each other.
    :raises TargetError: if the table is missing, differs between nodes, or cannot take the files.
    :raises ClusterError: if the cluster is unknown, or a node does not respond.
    :raises PlanError: if the ClickHouse user's profile forbids a setting that a load needs.
    :raises ServerError: if ClickHouse refuses a statement, or the login.
    :raises LoadError: if the load failed, or its outcome cannot be determined.
    :raises SettleError: if the staged parts will never settle (``commit="settled"``).
    :raises AirflowFailException: instead of an error above, if no retry can change the error: wrong arguments,
        missing rights, types and values that do not fit, checks that are not fulfilled. Has the error as its context.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "source": SOURCE,
        "clickhouse_conn_id": NAME,
        **declared_kinds(LoadRequest),
    }
    template_fields: Sequence[str] = (*kinds, "sql")
    template_fields_renderers = {**renderers_of(kinds), "sql": "sql"}  # noqa: RUF012
    operator_extra_links = (LoadReportLink(), ClickHouseLink())
    ui_color = "#faff69"
    timing: Timing = REAL_TIME
    scheme: ClassVar[Scheme]

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        table: str,
        mode: str | Mode | Mapping[str, Any] = Append.name,
        create_table: str | CreateTable | Mapping[str, Any] | None = None,
        arrivals: Arrivals | Mapping[str, Any] | None = None,
        data_format: str | Format | Csv | Mapping[str, Any] | None = None,
        columns: Sequence[str] | Columns | Mapping[str, Any] | None = None,
        select: Mapping[str, str] | None = None,
        where: str = "",
        provenance: Mapping[str, str] | None = None,
        bad_rows: str | Reject | Mapping[str, Any] = Fail.name,
        checks: Mapping[str, str | Check | Mapping[str, Any]] | Checks | None = None,
        chunks: str | Chunks | Mapping[str, Any] | None = None,
        commit: str | Held | Mapping[str, Any] = AtOnce.name,
        after_load: str | Tag | Move | Delete | Mapping[str, Any] = Keep.name,
        settings: Mapping[str, SettingValue] | None = None,
        clickhouse_conn_id: str = DEFAULT_CONNECTION,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poll_interval: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.table = table
        self.mode = mode
        self.create_table = create_table
        self.arrivals = arrivals
        self.data_format = data_format
        self.columns = columns
        self.select = select
        self.where = where
        self.provenance = provenance
        self.bad_rows = bad_rows
        self.checks = checks
        self.chunks = chunks
        self.commit = commit
        self.after_load = after_load
        self.settings = settings
        self.clickhouse_conn_id = clickhouse_conn_id
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self.sql = ""  # no argument: shown among the rendered fields when the task has ended
        self.clickhouse_link = ""
        self._load: Load | None = None
        self._lineage: LoadLineage | None = None
        check_flag("deferrable", deferrable)
        check_seconds("poll_interval", poll_interval, is_positive=True)
        self._check_as_written()

    def _check_as_written(self) -> None:
        """Find mistakes while the DAG is parsed, as far as the arguments have no templates.

        :raises ConfigError: for the first mistake.
        """
        self.check_as_written(("clickhouse_conn_id",))
        fields = declared_fields(LoadRequest)
        if all(getattr(self, name) is None or self.is_as_written(name) for name in ("source", *fields)):
            request = self.build_request(self.source_as_written(), {}, LoadLimit())
            check_request(request)
            if request.holds and self.outlets:
                raise ConfigError(
                    "arguments-contradict",
                    "outlets do not go together with commit='held': Airflow emits their events when the load has"
                    " ended, before the commit; give them to the ClickHouseCommitHeldOperator",
                )
        else:
            self.check_as_written(fields)

    def source_as_written(self) -> Source:
        """Parse ``source`` without a connection.

        :raises ConfigError: if an address is wrong.
        """
        return parse_source(SOURCE.parse("source", self.source), self.scheme)

    def open_store(self) -> ObjectStore:
        """Open the store with the files; import the store's module here: Airflow parses DAG files every few seconds.

        :raises ConfigError: if the arguments or the connection are wrong.
        """
        raise NotImplementedError

    def read_source(self, store: ObjectStore) -> Source:
        """Parse ``source``.

        :param store: the store with the files.
        :raises ConfigError: if an address or the connection of the store is wrong.
        """
        return dataclasses.replace(self.source_as_written(), account=store.account)

    def read_request(self, store: ObjectStore, hook: ClickHouseS3Hook, limit: LoadLimit) -> LoadRequest:
        """Parse all arguments, whose templates are rendered, into the request of a load.

        :param limit: how many loads of the task Airflow may run at once.
        :raises ConfigError: for the first wrong argument; the load itself looks for contradictions again.
        """
        return self.build_request(self.read_source(store), hook.connection_settings, limit)

    def build_request(
        self, source: Source, connection_settings: Mapping[str, SettingValue], limit: LoadLimit
    ) -> LoadRequest:
        """Build the request: each declared field of it from the argument of the same name.

        :param source: the source.
        :raises ConfigError: if an argument has a wrong value.
        """
        fields = declared_fields(LoadRequest)
        request = LoadRequest(
            source=source,
            snapshot=getattr(self, "snapshot", ""),
            connection_settings=connection_settings,
            timeout_seconds=timeout_of(self),
            limit=limit,
            **{name: parse_field(name, field, getattr(self, name, None)) for name, field in fields.items()},
        )
        return dataclasses.replace(request, settings={**request.csv.settings, **request.settings})

    @fails_plainly
    def execute(self, context: Context) -> dict[str, Any] | None:
        """Load and return the report, or submit the load and wait in the triggerer.

        :raises ChS3Error: as described for the class; AirflowFailException instead if no retry can change the error.
        :raises AirflowSkipException: if there was nothing to load, and the arguments ask for a skip.
        """
        with self.loading(context) as load:
            reached = load.start() if self.deferrable else load.run()
            return self._result_of(context, load, reached, new_deadline(self))

    @fails_plainly
    def execute_complete(self, context: Context, event: Mapping[str, Any], sql: str = "") -> dict[str, Any] | None:
        """Verify and commit what the query staged, and submit the next chunk if there is one.

        :param sql: the submitted INSERT, to be shown; `airflow dags test` does not pass it on.
        :raises LoadError: if the query took too long; the query is then stopped.
        :raises AirflowSkipException: as :meth:`execute`.
        """
        self._show(sql)
        with self.loading(context) as load:
            # The triggerer may have been down when the query ended in time.
            if event["status"] == "timeout" and load.is_running(event["query_id"]):
                load.kill()
                raise LoadError(
                    "execution-timeout",
                    f"{event['query_id']} ran longer than the task's execution_timeout of {self.execution_timeout}"
                    f" allows, and was stopped; {load.after_kill}: raise the limit, or load fewer files at a time",
                )
            return self._result_of(context, load, load.complete(event["query_id"]), event["deadline"])

    def on_kill(self) -> None:
        """Stop the query on all nodes, and leave nothing half done."""
        if self._load is not None:
            self._load.kill()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Tell OpenLineage what was loaded into which table, or which checks failed; None for other failures."""
        return self._lineage.build() if self._lineage else None

    def _result_of(
        self, context: Context, load: Load, reached: LoadReport | str, deadline: float | None
    ) -> dict[str, Any] | None:
        if not isinstance(reached, str):
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

    def _result(self, context: Context, load: Load, report: LoadReport) -> dict[str, Any]:
        if not report.is_nothing_new:  # which the load itself has logged in the same words
            log.info("%s", report.outcome)
        if not load.request.checks.validate_only:
            self._tell(context, load, report)
        is_without_files = report.is_nothing_new and not report.files_skipped
        arrivals = load.request.arrivals
        if (report.is_nothing_new and arrivals.skip_if_nothing_new) or (
            is_without_files and arrivals.on_none is OnNothing.SKIP
        ):
            # A skipped task returns nothing, but what runs all the same (none_failed) may want the report.
            if self.do_xcom_push:
                context["ti"].xcom_push(key=XCOM_RETURN_KEY, value=report.as_dict())
            raise AirflowSkipException(str(report))
        return report.as_dict()

    def _tell(self, context: Context, load: Load, report: LoadReport) -> None:
        """Tell assets, OpenLineage and metrics what was loaded."""
        from airflow_provider_ch_s3.introspection.table import locate_table
        from airflow_provider_ch_s3.transfers.announcements import LoadLineage, emit_metrics, tell_assets

        if load.table_name is not None:
            self._lineage = LoadLineage.of(load, load.table_name, report, sql=load.sql or self.sql)
        if report.is_held:  # the commit tells the others
            return
        if load.table_name is not None:
            locate = partial(locate_table, load.client, load.declaration, load.request.table)
            tell_assets(context, self.outlets, load.table_name, report, locate)
        emit_metrics(report)

    @contextmanager
    def loading(self, context: Context) -> Iterator[Load]:
        """Return the load of a task instance, for the length of a block: with the connections, as rendered."""
        # Imported here, because Airflow parses DAG files every few seconds, and parsing needs none of this.
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
        from airflow_provider_ch_s3.load.direct import DirectLoad
        from airflow_provider_ch_s3.load.staged import StagedLoad

        hook = ClickHouseS3Hook(clickhouse_conn_id=NAME.parse("clickhouse_conn_id", self.clickhouse_conn_id))
        store = self.open_store()
        hook.keep_secret(lambda: store.access().secrets)
        identity = identify(context, table=str(TEXT.parse("table", self.table)))
        request = self.read_request(store, hook, limit_of(self, is_mapped=identity.map_index >= 0))
        kind: type[Load] = StagedLoad if request.mode.is_staged else DirectLoad
        self._load = kind(
            client=hook,
            store=store,
            declaration=hook.declaration,
            request=request,
            identity=identity,
            timing=dataclasses.replace(self.timing, poll_seconds=self.poll_interval),
        )
        self.clickhouse_link = build_clickhouse_link(self._load)
        try:
            yield self._load
        except ChS3Error as error:
            if not request.checks.validate_only:
                self._tell_failed(self._load, error)
            raise
        finally:
            hook.close()
            self._show(self._load.sql)

    def _tell_failed(self, load: Load, error: ChS3Error) -> None:
        """Tell metrics and OpenLineage what a failed load leaves in the table, and what the checks found."""
        from airflow_provider_ch_s3.report import LoadReport
        from airflow_provider_ch_s3.transfers.announcements import LoadLineage, emit_check_metrics, emit_metrics

        results = error.results if isinstance(error, CheckFailedError) else ()
        if error.left is not None:
            emit_metrics(error.left)
        emit_check_metrics(results, table=load.request.table, load_mode=load.request.mode.name)
        if load.table_name is not None and (error.left is not None or results):
            report: LoadReport = error.left or LoadReport(query_id="", table=load.request.table, partitions={})
            report = dataclasses.replace(report, row_checks=results or report.row_checks)
            self._lineage = LoadLineage.of(load, load.table_name, report, sql=load.sql or self.sql)

    def _show(self, sql: str) -> None:
        """Have Airflow store the rendered fields once more when the task ends, with the INSERT."""
        if sql:
            is_cut_off = len(sql) > conf.getint("core", "max_templated_field_length", fallback=4096)
            self.sql = shorten_lines(sql) if is_cut_off else sql
            self.overwrite_rtif_after_execution = True
