"""The operator that loads files from S3 into ClickHouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator, timezone

from airflow_provider_ch_s3.errors import ConfigError
from airflow_provider_ch_s3.hooks.clickhouse_s3 import ClickHouseS3Hook
from airflow_provider_ch_s3.hooks.s3_file_store import S3FileStore
from airflow_provider_ch_s3.load.request import LoadIdentity, LoadRequest
from airflow_provider_ch_s3.load.run import LoadRun
from airflow_provider_ch_s3.source import parse_source
from airflow_provider_ch_s3.tuning import SettingValue

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class S3ToClickHouseOperator(BaseOperator):  # type: ignore[misc]
    """Load files from S3 into a ClickHouse table, on all nodes of the cluster.

    The rows go from S3 straight into ClickHouse (``INSERT INTO … SELECT … FROM s3Cluster(…)``); none passes
    through the worker. All settings are computed from the cluster's hardware and the files, each with a reason
    in the log. A retry takes over the query of an earlier try; it never starts a second one beside it.

    The load is at least once: rows that a *failed* query wrote stay in the table.

    :param source: ``s3://bucket/key``, or a list of them in one bucket; keys may hold the globs ``*``, ``**``,
        ``?``, ``{a,b}``, ``{1..9}``. (templated)
    :param table: ``table`` or ``database.table``, local or Distributed. (templated)
    :param clickhouse_conn_id: connection of type ``clickhouse_s3`` (or ``clickhouse``). (templated)
    :param aws_conn_id: connection of type ``aws``, for the listing and for the servers. None: the worker and
        the servers use their own roles. (templated)
    :param named_collection: named collection on the servers that holds the keys, instead of those of
        ``aws_conn_id``. (templated)
    :param load_mode: ``append``.
    :param staging: False: the load writes straight into the table.
    :param data_format: ClickHouse's name, e.g. ``Parquet``; told by the file names when left out. (templated)
    :param compression: ClickHouse's name, e.g. ``gz``; told by the file names when left out. (templated)
    :param structure: ``name Type, …`` of the files; told by the files and the table when left out. (templated)
    :param columns: the table's columns to load; all of them when left out. (templated)
    :param select: table column → flat SQL expression over the columns of the files. (templated)
    :param where: flat SQL condition over the columns of the files. (templated)
    :param settings: ClickHouse settings; they win over the connection's and the computed ones. (templated)
    :param poll_interval: seconds between two looks at the running query.
    :returns: the load's report, a dict of plain values, through XCom.
    """

    template_fields: Sequence[str] = (
        "source",
        "table",
        "clickhouse_conn_id",
        "aws_conn_id",
        "named_collection",
        "data_format",
        "compression",
        "structure",
        "columns",
        "select",
        "where",
        "settings",
    )
    template_fields_renderers = {"select": "json", "settings": "json", "where": "sql", "structure": "sql"}  # noqa: RUF012
    ui_color = "#faff69"

    def __init__(
        self,
        *,
        source: str | Sequence[str],
        table: str,
        clickhouse_conn_id: str = ClickHouseS3Hook.default_conn_name,
        aws_conn_id: str | None = "aws_default",
        named_collection: str = "",
        load_mode: str = "append",
        staging: bool = False,
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
        self.load_mode = load_mode
        self.staging = staging
        self.data_format = data_format
        self.compression = compression
        self.structure = structure
        self.columns = columns
        self.select = select
        self.where = where
        self.settings = settings
        self.poll_interval = poll_interval
        self._load: LoadRun | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Load, and report."""
        self._check_arguments()
        hook = ClickHouseS3Hook(clickhouse_conn_id=self.clickhouse_conn_id)
        self._load = LoadRun(
            client=hook,
            store=S3FileStore(aws_conn_id=self.aws_conn_id, named_collection=self.named_collection),
            declaration=hook.declaration,
            request=self._request(hook),
            identity=identify(context, table=self.table),
            poll_seconds=self.poll_interval,
        )
        try:
            return self._load.run().as_dict()
        finally:
            hook.close()

    def on_kill(self) -> None:
        """End the query on all nodes, and see that nothing is left running."""
        if self._load is not None:
            self._load.kill()

    def _check_arguments(self) -> None:
        if self.load_mode != "append":
            raise ConfigError(f"load_mode={self.load_mode!r} is not known; use load_mode='append'")
        if self.staging:
            raise ConfigError("staging=True is not there yet; use staging=False, which loads at least once")
        if self.poll_interval <= 0:
            raise ConfigError(f"poll_interval={self.poll_interval} is not a time; give seconds above 0")

    def _request(self, hook: ClickHouseS3Hook) -> LoadRequest:
        return LoadRequest(
            pattern=parse_source(self.source),
            table=self.table,
            data_format=self.data_format,
            compression=self.compression,
            structure=self.structure,
            columns=self.columns,
            select=self.select or {},
            where=self.where,
            settings=self.settings or {},
            connection_settings=hook.connection_settings,
            timeout_seconds=self.execution_timeout.total_seconds() if self.execution_timeout else None,
        )


def identify(context: Context, *, table: str) -> LoadIdentity:
    """Who loads, from the task's context: the same over retries, another generation after a clear."""
    ti, dag_run = context["ti"], context["dag_run"]
    # max_tries stays the same over retries and rises exactly when this task instance is cleared
    first_try = ti.max_tries - (context["task"].retries or 0) + 1
    return LoadIdentity(
        dag_id=ti.dag_id,
        task_id=ti.task_id,
        run_id=ti.run_id,
        map_index=ti.map_index if ti.map_index is not None else -1,
        table=table,
        generation=ti.max_tries,
        try_number=ti.try_number,
        is_first_try=ti.try_number <= first_try,
        since=dag_run.start_date or timezone.utcnow(),
    )
