"""The operators that end a held load: commit the rows, or drop the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowSkipException, BaseOperator

from airflow_provider_ch_s3.cluster.fields import DEFAULT_CONNECTION
from airflow_provider_ch_s3.common.declared import NAME, TEXT, Kind
from airflow_provider_ch_s3.discretion import get_log
from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.identity import LOAD_PREFIX
from airflow_provider_ch_s3.table.target import TABLE
from airflow_provider_ch_s3.transfers.failures import fails_plainly
from airflow_provider_ch_s3.transfers.templates import RendersArguments, parse_arguments, renderers_of

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
    from airflow_provider_ch_s3.transfers.announcements import CommitLineage

log = get_log(__name__)


class HeldLoadOperator(RendersArguments, BaseOperator):  # type: ignore[misc]
    """End a held load (``commit="held"``); the base of two operators."""

    kinds: ClassVar[Mapping[str, Kind]] = {"load": TEXT, "table": TABLE, "clickhouse_conn_id": NAME}
    template_fields: Sequence[str] = tuple(kinds)
    template_fields_renderers = renderers_of(kinds)
    ui_color = "#faff69"

    def __init__(self, *, load: str, table: str, clickhouse_conn_id: str = DEFAULT_CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.load = load
        self.table = table
        self.clickhouse_conn_id = clickhouse_conn_id
        self.check_as_written(self.kinds)

    @contextmanager
    def _finding(self, context: Context) -> Iterator[tuple[ClickHouseS3Hook, str, str]]:
        """Find the load.

        :returns: the connection, the name of the load, and the table.
        :raises AirflowSkipException: if the load found nothing new.
        """
        # Imported here, because Airflow parses DAG files every few seconds, and parsing needs none of this.
        from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook

        given = parse_arguments(self, self.kinds)
        name = given["load"] if given["load"].startswith(LOAD_PREFIX) else _read_query_id(context, given["load"])
        hook: ClickHouseS3Hook = ClickHouseS3Hook(clickhouse_conn_id=given["clickhouse_conn_id"])
        try:
            yield hook, name, given["table"]
        finally:
            hook.close()


class ClickHouseCommitHeldOperator(HeldLoadOperator):
    """Commit the held rows of a load (``commit="held"``), exactly once.

    The commit is refused if others have changed what the load relied on: have loaded the same files, or rows that the
    held rows would replace. A retry completes an interrupted commit. If the load found nothing new, the task is
    skipped.

    :param load: the loading task of the same DAG run; or the id of the load, ``ch-s3-…``, as the list of
        loads shows the id.
    :param table: the table of the load.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``), with the login of the load.
    :returns: the :class:`LoadReport` of the commit as a dict of plain values, through XCom.
    :raises ConfigError: if the load holds nothing, or not any more.
    :raises LoadError: if others have changed what the load relied on, or the commit failed.
    """

    _lineage: CommitLineage | None = None

    @fails_plainly
    def execute(self, context: Context) -> dict[str, Any]:
        """Commit, and return the report.

        :raises ChS3Error: as described for the class.
        :raises AirflowSkipException: if the load found nothing new.
        """
        from airflow_provider_ch_s3.introspection.table import locate_table
        from airflow_provider_ch_s3.load.held import commit_held
        from airflow_provider_ch_s3.load.wiring import find_target
        from airflow_provider_ch_s3.transfers.announcements import CommitLineage, emit_metrics, tell_assets

        with self._finding(context) as (hook, name, table):
            report, spec = commit_held(partial(find_target, hook, hook.declaration), name, table)
            log.info("%s", report.outcome)
            tell_assets(
                context, self.outlets, spec.name, report, partial(locate_table, hook, hook.declaration, table)
            )
            self._lineage = CommitLineage(
                server=hook.declaration.host, table=spec.name, columns=spec.column_types, report=report
            )
        emit_metrics(report)
        return report.as_dict()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Tell OpenLineage which held rows were committed; None if none were."""
        del task_instance
        return self._lineage.build() if self._lineage else None


class ClickHouseDropHeldOperator(HeldLoadOperator):
    """Drop the held rows of a load (``commit="held"``): neither the table nor its files change.

    :param load: the loading task of the same DAG run; or the id of the load, ``ch-s3-…``, as the list of
        loads shows the id.
    :param table: the table of the load.
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``), with the login of the load.
    :raises ConfigError: if the load holds nothing, or its rows are committed.
    """

    @fails_plainly
    def execute(self, context: Context) -> None:
        """Drop the rows.

        :raises ChS3Error: as described for the class.
        :raises AirflowSkipException: if the load found nothing new.
        """
        from airflow_provider_ch_s3.load.held import drop_held
        from airflow_provider_ch_s3.load.wiring import find_target

        with self._finding(context) as (hook, name, table):
            log.info("%s", drop_held(partial(find_target, hook, hook.declaration), name, table))


def _read_query_id(context: Context, task_id: str) -> str:
    """Read the query id of the INSERT from the report of a task in the same run.

    :raises ConfigError: if the task has returned no report.
    :raises AirflowSkipException: if there was nothing new to load.
    """
    ti = context["ti"]
    found = ti.xcom_pull(task_ids=task_id, map_indexes=ti.map_index)
    if not isinstance(found, Mapping) or "query_id" not in found:
        raise ConfigError(
            "load-not-held",
            f"the task {task_id!r} has returned no report of a load in this run; correct load={task_id!r}, or give"
            " the id of the load",
        )
    if not found["query_id"]:
        raise AirflowSkipException(f"{task_id} found nothing new to load, so nothing is held")
    return str(found["query_id"])
